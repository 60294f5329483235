// Step 1: the columns of the table, the target, and columns to leave out.

import { amount, named } from "./charts.js";
import { $, el, keep, setText } from "./dom.js";
import { count, some } from "./format.js";

const KINDS = { number: "number", integer: "whole number", boolean: "yes or no", date: "date", category: "category", text: "text", empty: "empty", other: "other" };
const LONG = 12, MOST_NAMED = 6;

function kindText(column) {
  if (column.form) return "number in text";
  const kind = KINDS[column.kind] ?? column.kind;
  return ["category", "text", "boolean"].includes(column.kind) && column.categories !== null ? `${kind}, ${count(column.categories, "value")}` : kind;
}
function valuesText(column) {
  if (column.form) return column.form;
  const end = x => (typeof x === "number" ? amount(x) : x);
  if (column.low !== null && column.high !== null) return `${end(column.low)} to ${end(column.high)}`;
  return column.examples.join(", ");
}

// What to know about the target: rows without it, how it is read, its classes.
function targetText(target, name) {
  const found = [];
  if (target.dropped) found.push(`${count(target.dropped, "row")} without a value of ${name} ${target.dropped === 1 ? "is" : "are"} not used.`);
  if (target.form) found.push(`${name} is read as ${target.form}.`);
  if (target.positive !== null) found.push(`Predicted probabilities are for ${name} = ${target.positive} (the other class is ${target.classes[0]}).`);
  else if (target.classes.length) found.push(`${count(target.classes.length, "class")}: ${some(target.classes, MOST_NAMED)}.`);
  return found.join(" ");
}

export function setUpTable(session) {
  let chosen, wanted = "", drawn = "";
  $("columns-find").addEventListener("input", () => { wanted = $("columns-find").value.toLowerCase(); render(); });

  const unhelpful = () => session.state.left_out.filter(name => name in session.snapshot.table.unhelpful);
  $("use-again").addEventListener("click", () => session.edit(() => usable().map(useAgain)));
  const useAgain = name => ({ kind: "new_group", columns: [name] });
  const usable = () => unhelpful().filter(name => session.snapshot.table.columns.find(column => column.name === name).kind !== "other");

  function makeRow(column) {
    const use = el("input", { type: "checkbox", "aria-label": `Use ${column.name}`, onchange: () => session.edit(use.checked ? useAgain(column.name) : { kind: "leave_out", columns: [column.name] }) });
    const pick = el("button", { type: "button", class: "pick", onclick: () => session.edit({ kind: "set_target", column: column.name }) });
    const row = el("tr", {}, el("td", { class: "use-cell" }, use), el("th", { scope: "row" }, ...named(column.name)), el("td", { class: "kind" }, kindText(column)),
      el("td", { class: "values" }, valuesText(column)), el("td", { class: "missing" }, column.missing ? column.missing.toLocaleString("en") : "–"), el("td", { class: "act" }, pick));
    return Object.assign(row, { use, pick });
  }
  function updateRow(row, column) {
    const { target, left_out } = session.state, isTarget = column.name === target;
    row.classList.toggle("target", isTarget);
    row.use.checked = !isTarget && !left_out.includes(column.name);
    row.use.disabled = isTarget;
    row.pick.disabled = isTarget;
    if (row.isTarget !== isTarget) row.pick.replaceChildren(isTarget ? "Predicted" : "Predict", el("span", { class: "unseen" }, ` ${column.name}`));
    row.isTarget = isTarget;
    row.hidden = !column.name.toLowerCase().includes(wanted);
  }

  function render() {
    const { table, state } = session.snapshot, target = state.target;
    document.title = `${state.title || table.name} – budgetline explore`;
    $("table").classList.toggle("asking", target === null);
    setText($("table-title"), target === null ? "What do you want to predict?" : `Predict ${target}`);
    const size = `${table.name} has ${count(table.rows, "row")} and ${count(table.columns.length, "column")}.`;
    const used = table.columns.length - 1 - state.left_out.length;
    setText($("table-lead"), target === null ? `${size} Choose the column to predict. The other columns are what you can pay for.`
      : `From ${count(used, "other column")} of ${table.name} (${count(table.rows, "row")}). ${targetText(session.snapshot.target, target)}`);
    const reasons = unhelpful(), chosenOut = state.left_out.filter(name => !reasons.includes(name));
    setText($("left-out"), [reasons.length ? `Left out, because ${reasons.length === 1 ? "it does" : "they do"} not help to predict new rows: ${some(reasons.map(name => `${name} (${table.unhelpful[name]})`), MOST_NAMED)}.` : "",
      target !== null && chosenOut.length ? `Left out by you: ${some(chosenOut, MOST_NAMED)}.` : ""].filter(Boolean).join(" "));
    $("left-out").parentNode.hidden = !$("left-out").textContent;
    $("use-again").hidden = !usable().length;
    setText($("use-again"), usable().length === 1 ? "Use it anyway" : "Use them anyway");
    setText($("columns-summary"), target === null ? "Columns of the table" : "Change what to predict, or leave columns out");
    setText($("table-notes"), table.notes.map(note => `${note[0].toUpperCase()}${note.slice(1)}.`).join(" "));
    $("columns-find-box").hidden = table.columns.length <= LONG;
    if (chosen !== target) $("columns-box").open = target === null;
    // The list of columns closes: begin at the top of what follows.
    if (chosen === null && target !== null) scrollTo(0, 0);
    chosen = target;
    const key = JSON.stringify([target, state.left_out, wanted]);
    if (drawn === key) return;
    drawn = key;
    keep($("columns"), table.columns, column => column.name, makeRow, updateRow);
  }
  return render;
}
