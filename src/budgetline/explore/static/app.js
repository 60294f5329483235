// The page: opens the session, draws the sections when something changes, shows errors.

import { findToken, setToken } from "./api.js";
import { setUpBudget } from "./budget.js";
import { setUpCompare } from "./compare.js";
import { setUpDialog } from "./dialog.js";
import { $, late, setText } from "./dom.js";
import { setUpGroups } from "./groups.js";
import { setUpOrder } from "./order.js";
import { Session } from "./session.js";
import { setUpTable } from "./tables.js";
import { setUpTake } from "./take.js";

// Show an error until it is closed or the next edit; a field, if given, is where it comes from.
function complain(message, field) {
  setText($("alert-text"), message);
  $("alert").hidden = false;
  field?.focus();
}
function quiet() {
  $("alert").hidden = true;
  setText($("alert-text"), "");
}

const session = new Session(render, error => (error.code === "token" ? lock() : complain(error.message)));
const LOST = "The connection to budgetline is lost. Is it still running? The page resumes by itself as soon as budgetline responds again.";
const UNSAVED = "budgetline has stopped. Your last changes were not saved, unless you have downloaded the session.";
const sections = [];
let drawn = null;

function render(refused = false) {
  if (!session.snapshot) return;
  if (refused) for (const field of document.querySelectorAll("input[aria-label], .field input")) if ("shown" in field) { field.shown = undefined; }
  const { snapshot } = session;
  renderBar();
  // Fields keep what was typed and ticked until all edits are answered.
  if (session.pending && !refused) return;
  const ready = snapshot.state.target !== null;
  $("table").hidden = false;
  for (const id of ["workplace", "budget", "compare", "take"]) $(id).hidden = !ready;
  // The first two sections show the state only.
  const edited = refused || drawn !== snapshot;
  drawn = snapshot;
  for (const [k, draw] of sections.entries()) if ((edited || k > 1) && (ready || k === 0)) draw();
}
function renderBar() {
  const { snapshot, computing, lost, pending } = session;
  setText($("file-name"), snapshot.table.name);
  const unsaved = snapshot.session?.problem ?? "";
  setText($("saved"), unsaved ? "Not saved" : "");
  $("unsaved").hidden = !unsaved || session.ended;
  setText($("unsaved"), unsaved && `Not saved: ${unsaved}`);
  // A disabled button loses the focus: the state is told, and a press does nothing.
  for (const [id, label] of [["undo", snapshot.undo_label], ["redo", snapshot.redo_label]]) {
    $(id).setAttribute("aria-disabled", String(label === null));
    $(id).title = label === null ? "" : `${id === "undo" ? "Undo" : "Redo"}: ${label}`;
  }
  $("lost").hidden = !lost && !session.ended;
  setText($("lost"), session.ended ? (unsaved ? UNSAVED : "budgetline has stopped. Everything is saved; you can close this page.") : lost ? LOST : "");
  Object.assign(document.body.dataset, { revision: snapshot.revision, pending });
  late($("working"), computing && !lost, on => { $("working").hidden = !on; renderProgress(); });
  renderProgress();
}
// A text that counts by itself, such as "fold 2 of 5", needs no other count.
const stepText = ({ text, done, total }) => (total > 1 && !/ of \d/.test(text) ? `${text}, step ${done + 1} of ${total}` : text);
function renderProgress() {
  const { progress } = session, bar = $("progress");
  if ($("working").hidden) return;
  if (progress) { bar.max = progress.total || 1; bar.value = progress.done; } else bar.removeAttribute("value");
  setText($("progress-text"), progress ? stepText(progress) : "Computing");
}
function lock() {
  for (const id of ["table", "workplace", "budget", "compare", "take"]) $(id).hidden = true;
  $("locked").hidden = false;
}

function undoKey(event) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(event.key.toLowerCase()) || $("dialog").open) return;
  const field = event.target;
  // A field with unfinished typing has its own undo.
  if (field instanceof HTMLTextAreaElement || field.type === "search" || ("shown" in field && field.value !== field.shown)) return;
  event.preventDefault();
  quiet();
  if (event.shiftKey || event.key.toLowerCase() === "y") session.redo(); else session.undo();
}

async function start() {
  setUpDialog();
  const goTo = budget => session.edit({ kind: "choose", budget }, "budget");
  sections.push(setUpTable(session), setUpGroups(session, complain), setUpOrder(session, goTo), setUpBudget(session), setUpCompare(session), setUpTake(session, complain));
  $("undo").addEventListener("click", () => session.undo());
  $("redo").addEventListener("click", () => session.redo());
  $("alert-close").addEventListener("click", quiet);
  document.addEventListener("change", quiet, true);
  document.addEventListener("click", event => { if (event.target.closest("button")) quiet(); }, true);
  document.addEventListener("keydown", undoKey);
  $("key-form").addEventListener("submit", event => { event.preventDefault(); setToken($("key").value); location.reload(); });
  if (!findToken()) { lock(); return; }
  try {
    await session.open();
  } catch (error) {
    if (error.code === "token") lock(); else { complain(error.message); setTimeout(() => location.reload(), 3000); }
  }
}
start();
