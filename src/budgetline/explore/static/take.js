// Step 6: files to download and lines to copy.

import { Lost, call, download } from "./api.js";
import { $, dim, el, saveAs, setText } from "./dom.js";

const FILES = [
  ["model", "Model", "To predict with, at any budget"], ["report", "Report", "A page to share, with the same curve and slider"], ["groups", "Groups and prices", "A text file (YAML) that can be imported again"],
  ["onnx", "ONNX", "The model for programs in other languages"], ["plan", "Plan", "A model of the groups planned for the budget"], ["session", "Session", "To continue on another machine, with --session"],
];

export function setUpTake(session, complain) {
  let shown = -1, asking = false;
  const buttons = Object.fromEntries(FILES.map(([what, name, about]) => {
    const button = el("button", { type: "button", onclick: () => get(what, name, button) }, el("b", {}, name), el("span", {}, about));
    $("downloads").append(el("li", {}, button));
    return [what, button];
  }));
  async function get(what, name, button) {
    button.disabled = true;
    setText($("download-status"), `${name} is being made…`);
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
  async function copy(button, text) {
    try {
      await navigator.clipboard.writeText(text);
      setText(button, "Copied");
      setTimeout(() => setText(button, "Copy"), 2000);
    } catch {
      complain("The browser does not allow copying. Select the lines and copy them by hand.");
    }
  }
  $("copy-shell").addEventListener("click", () => copy($("copy-shell"), $("shell").textContent));
  $("copy-python").addEventListener("click", () => copy($("copy-python"), $("python").textContent));
  $("quit").addEventListener("click", async () => {
    try {
      await session.stop();
    } catch (error) {
      complain(error.message);
    }
  });

  async function lines() {
    const { revision } = session.snapshot;
    const fresh = shown === revision && !session.pending;
    dim($("lines"), !fresh);
    $("lines").dataset.fresh = String(fresh);
    if (asking || fresh || !session.fresh("order")) return;
    asking = true;
    try {
      const found = await call("/api/lines");
      setText($("shell"), found.shell);
      setText($("python"), found.python);
      $("line-files").replaceChildren(...found.files.map(file => el("details", {}, el("summary", {}, file.name), el("pre", { tabindex: "0", role: "region", "aria-label": file.name }, el("code", {}, file.text)))));
    } catch (error) {
      if (error instanceof Lost) { asking = false; return; } // asked again when the page is drawn next
      complain(error.message);
    }
    shown = revision;
    asking = false;
    lines();
  }
  return () => {
    const { file, problem } = session.snapshot.session;
    setText($("session-note"), problem ? "" : file ? `Every change is saved in ${file}.` : "");
    buttons.plan.disabled = session.state.budget === null;
    buttons.plan.title = session.state.budget === null ? "Choose a budget first" : "";
    if (session.state.groups.length) lines();
  };
}
