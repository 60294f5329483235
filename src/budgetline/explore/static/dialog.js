// One dialog for all questions: a title and fields, answered by OK or Cancel.

import { $, el } from "./dom.js";

let finish = null;

function close(answer) {
  const done = finish;
  finish = null;
  if ($("dialog").open) $("dialog").close();
  done?.(answer);
}
export function setUpDialog() {
  $("dialog-form").addEventListener("submit", event => { event.preventDefault(); close(read()); });
  $("dialog-cancel").addEventListener("click", () => close(null));
  $("dialog-extra").addEventListener("click", () => close("extra"));
  $("dialog").addEventListener("close", () => close(null));
}

function read() {
  const answer = {};
  for (const box of $("dialog-body").querySelectorAll("[data-checks]")) answer[box.dataset.checks] = [...box.querySelectorAll("input:checked")].map(input => input.value);
  for (const field of $("dialog-body").querySelectorAll("[name]")) answer[field.name] = field.value;
  return answer;
}

function checkList({ name, label, options, chosen }) {
  const rows = options.map(option => el("label", { class: "check" }, el("input", { type: "checkbox", value: option, checked: chosen.includes(option) }), el("span", {}, option)));
  const list = el("div", { class: "check-list", "data-checks": name }, ...rows);
  const find = el("input", { type: "search", "aria-label": `Find in ${label}`, placeholder: "Find…", oninput: () => {
    const wanted = find.value.toLowerCase();
    rows.forEach((row, k) => { row.hidden = !options[k].toLowerCase().includes(wanted); });
  } });
  return el("fieldset", {}, el("legend", {}, label), options.length > 12 ? find : null, list);
}
function field({ name, label, type, value, options, required }) {
  const id = `dialog-${name}`;
  const input = type === "select" ? el("select", { id, name }, ...options.map(([v, text]) => el("option", { value: v }, text)))
    : el("input", { id, name, type, required, ...(type === "number" ? { min: 0, step: "any", inputmode: "decimal" } : { autocomplete: "off" }) });
  input.value = value ?? "";
  return el("p", { class: "field" }, el("label", { for: id }, label), input);
}

// Ask for the fields; resolves to their values by name, to "extra" for the additional button, or to null.
export function ask({ title, intro, ok = "OK", extra = "", fields, live }) {
  close(null);
  $("dialog-title").textContent = title;
  $("dialog-ok").textContent = ok;
  $("dialog-extra").textContent = extra;
  $("dialog-extra").hidden = !extra;
  $("dialog-body").replaceChildren(...(intro ? [el("p", { class: "hint" }, intro)] : []), ...fields.map(f => (f.type === "checks" ? checkList(f) : field(f))));
  if (live) { live(); $("dialog-body").oninput = live; } else $("dialog-body").oninput = null;
  $("dialog").showModal();
  return new Promise(done => { finish = done; });
}
