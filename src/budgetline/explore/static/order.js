// Step 3: the order, what moved, the curve, and how it is computed.

import { curveLegend, drawOrder, isHeldOut, markBudget, onResize, widthOf } from "./chart.js";
import { $, dim, el, onCommit, setField, setText } from "./dom.js";
import { amount, named, number } from "./charts.js";

const WORDS = {
  regression: "a number", classification: "a class",
  roc_auc: "telling classes apart (ROC AUC)", accuracy: "correct classes (accuracy)", explained: "share explained", r2: "share explained (R²)", mse: "mean squared error",
};
const FIRST = "This is a preliminary order. It may still change while settings are chosen and quality is measured.";
const SETTINGS = [["task", "What is predicted"], ["metric", "Quality is measured by"]];

function settingFields(session) {
  const selects = SETTINGS.map(([key, label]) => {
    const select = el("select", { id: `set-${key}`, onchange: () => session.edit({ kind: "choose", [key]: select.value }) });
    return { key, select, field: el("p", { class: "field" }, el("label", { for: select.id }, label), select) };
  });
  const unit = el("input", { id: "set-unit", type: "text", autocomplete: "off" }), title = el("input", { id: "set-title", type: "text", autocomplete: "off" });
  onCommit(unit, text => (session.edit({ kind: "choose", unit: text }), true));
  onCommit(title, text => (session.edit({ kind: "choose", title: text }), true));
  $("settings").append(...selects.map(each => each.field),
    el("p", { class: "field" }, el("label", { for: "set-unit" }, "Costs are in"), unit), el("p", { class: "field" }, el("label", { for: "set-title" }, "Title of the report"), title));
  return () => {
    const { state, choices } = session.snapshot;
    for (const { key, select, field } of selects) {
      const options = choices[key] ?? [], names = JSON.stringify(options);
      if (select.dataset.options !== names) select.replaceChildren(...options.map(value => el("option", { value }, WORDS[value] ?? value.replaceAll("_", " "))));
      select.dataset.options = names;
      select.value = state[key];
      field.hidden = options.length < 2;
    }
    setField(unit, state.unit);
    setField(title, state.title);
  };
}

function movedMark(step) {
  if (!step.moved) return "";
  const up = step.moved > 0, places = Math.abs(step.moved);
  return el("span", { class: up ? "rose" : "fell" }, el("span", { "aria-hidden": "true" }, `${up ? "↑" : "↓"} ${places}`), el("span", { class: "unseen" }, `${up ? "up" : "down"} ${places}`));
}

export function setUpOrder(session, setBudget) {
  const renderSettings = settingFields(session), plot = $("order-plot");
  let drawn = "", chart = null;
  const redraw = () => {
    const order = session.part("order");
    if (!isHeldOut(order)) return;
    chart = drawOrder(plot, order, session.state.unit, widthOf(plot) < 480 ? 240 : 250, setBudget);
    markBudget(chart, session.state.budget);
  };
  onResize(plot, redraw);

  function fill(order) {
    const { measure } = order;
    if (measure) setText($("value-head"), measure.label);
    $("steps").replaceChildren(...order.steps.map(step => el("tr", { "data-group": step.group }, el("td", { class: "num" }, String(step.step)), el("th", { scope: "row" }, ...named(step.group)), el("td", { class: "moved" }, movedMark(step)),
      el("td", { class: "num" }, amount(step.cost)), el("td", { class: "num" }, amount(step.cumulative_cost)), el("td", { class: "num" }, number(step.value, measure?.style)), el("td", { class: "num" }, step.agreement === null ? "" : `${step.agreement} of ${step.folds}`))));
    if (!isHeldOut(order)) return;
    const both = order.steps.every(step => step.columns) ? "" : " a × b is the interaction of two columns. It costs nothing once both are bought.";
    const never = order.left_out_of_order?.length ? ` Never bought: ${order.left_out_of_order.join(", ")}.` : "";
    setText($("order-how"), `Quality is measured on held-out rows: each of ${measure.folds} folds (${measure.folds_made}) is predicted by a model that was not trained on it.${both}${never}`);
    $("order-notes").replaceChildren(...order.warnings.map(note => el("li", {}, note)));
    $("order-notes").hidden = !order.warnings.length;
    curveLegend($("order-legend"), order);
    redraw();
  }
  return () => {
    const order = session.part("order"), fresh = session.fresh("order"), result = $("order-result");
    renderSettings();
    const first = fresh && order?.preliminary === true;
    dim(result, !fresh);
    // The curve, and what is said of it, belong to the order before.
    for (const id of ["order-curve", "order-about"]) { $(id).hidden = !chart && !isHeldOut(order); dim($(id), first); }
    result.setAttribute("aria-busy", String(!fresh));
    result.hidden = !order?.steps.length;
    $("order-problem").hidden = !order?.error;
    setText($("order-problem"), order?.error ?? "");
    dim($("headline"), !fresh);
    setText($("headline"), order ? (order.preliminary ? FIRST : order.headline ?? "") : "Computing a first order…");
    if (chart) markBudget(chart, session.state.budget);
    if (order?.steps.length && drawn !== `${order.serial} ${session.state.unit}`) {
      drawn = `${order.serial} ${session.state.unit}`;
      fill(order);
    }
    if (order) Object.assign(result.dataset, { revision: order.revision, fresh: String(fresh && !order.preliminary) });
  };
}
