// Step 6: files to download and lines to copy.

import { download } from "./api.js";
import { $, el, saveAs, setText } from "./dom.js";

const FILES = [
  ["model", "Model", "To predict at any budget"], ["report", "Report", "A page to share, with the same curve and slider"], ["groups", "Groups and prices", "A text file (YAML) that can be imported again"],
  ["session", "Session", "To continue on another machine, with --session"],
];

export function setUpTake(session, complain) {
  for (const [what, name, about] of FILES) {
    const button = el("button", { type: "button", onclick: () => get(what, name, button) }, el("b", {}, name), el("span", {}, about));
    $("downloads").append(el("li", {}, button));
  }
  async function get(what, name, button) {
    button.disabled = true;
    setText($("download-status"), `Preparing the ${name.toLowerCase()}…`);
    try {
      const found = await download(what);
      saveAs(found.blob, found.name);
      setText($("download-status"), `${found.name} is ready.`);
    } catch (error) {
      setText($("download-status"), "");
      complain(error.message);
    }
    button.disabled = false;
    button.focus();
  }
  $("copy-shell").addEventListener("click", async () => {
    const button = $("copy-shell");
    try {
      await navigator.clipboard.writeText($("shell").textContent);
      setText(button, "Copied");
      setTimeout(() => setText(button, "Copy"), 2000);
    } catch {
      complain("The browser does not allow copying. Select the lines and copy them by hand.");
    }
  });
  $("quit").addEventListener("click", async () => {
    try {
      await session.stop();
    } catch (error) {
      complain(error.message);
    }
  });

  return () => {
    const { lines, session: { file, problem } } = session.snapshot;
    setText($("shell"), lines);
    setText($("session-note"), problem ? "" : file ? `Every change is saved in ${file}.` : "");
  };
}
