// Small helpers for elements. Names from files enter the page as text nodes only.

import { named } from "./charts.js";

export const $ = id => document.getElementById(id);

// Make an element: keys that start with "on" are listeners, the others attributes; children are nodes or text.
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Call `show(true)` if `on` lasts for a moment, and `show(false)` when it ends: what passes at once must not flicker.
const SOON = 250;
export function late(node, on, show) {
  if (on && !node.waiting) node.waiting = setTimeout(() => show(true), SOON);
  if (on || !node.waiting) return;
  clearTimeout(node.waiting);
  node.waiting = 0;
  show(false);
}
// Dim what belongs to an older state.
export const dim = (node, stale) => late(node, stale, on => node.classList.toggle("stale", on));

// Make the children of `parent` match `items`: nodes of known keys are kept, so that focus and typing survive.
export function keep(parent, items, keyOf, make, update) {
  const known = (parent.kept ??= new Map()), seen = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = known.get(key);
    if (!node) known.set(key, node = make(item));
    seen.add(key);
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const [key, node] of known) if (!seen.has(key)) { node.remove(); known.delete(key); }
}

// Show the server's value in a field, but not over what is being typed there.
export function setField(field, value) {
  const text = value === null || value === undefined ? "" : String(value);
  if (field.shown === text && field.value === text) return;
  if (document.activeElement === field && field.value !== field.shown && field.shown !== undefined) return;
  field.value = text;
  field.shown = text;
  field.removeAttribute("aria-invalid");
}

// Call `commit(value)` when a field is left, Enter is pressed or typing pauses; Escape brings the old value back.
export function onCommit(field, commit, pause = 0) {
  let timer = 0;
  const send = () => {
    clearTimeout(timer);
    if (field.value === field.shown) return;
    if (commit(field.value)) { field.shown = field.value; field.removeAttribute("aria-invalid"); }
    else field.setAttribute("aria-invalid", "true");
  };
  field.addEventListener("change", send);
  field.addEventListener("keydown", event => {
    if (event.key === "Enter") send();
    if (event.key === "Escape" && field.value !== field.shown) { field.value = field.shown; field.removeAttribute("aria-invalid"); event.stopPropagation(); }
  });
  if (pause) field.addEventListener("input", () => {
    clearTimeout(timer);
    if (field.value !== "" && field.validity.valid) timer = setTimeout(send, pause);
  });
}

export function chips(list, names, kindOf = () => "") {
  list.replaceChildren(...(names.length ? names.map(name => el("li", { class: kindOf(name) }, ...named(name))) : [el("li", { class: "none" }, "none")]));
}

export function saveAs(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
