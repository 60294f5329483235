// Step 4: what a budget buys, the plan for it, what comes next, and what each group does.

import { curveLegend, describeValue, drawOrder, isHeldOut, mainCurve, markBudget, onResize, widthOf } from "./chart.js";
import { SLACK, amount, change, difference, lastWithin, named, number } from "./charts.js";
import { $, chips, dim, el, keep, setText } from "./dom.js";
import { count, share } from "./format.js";

const MOST_PICTURES = 12;

export function setUpBudget(session) {
  const slider = $("budget-slider"), field = $("budget-number"), plot = $("budget-plot");
  let budget = 0, shown = null, drawn = "", chart = null, effectsShown = "", more = false;
  // The last order with a curve: a first guess does not replace it.
  let heldOut = null;
  const order = () => {
    const found = session.part("order");
    if (!found || found.error || isHeldOut(found)) heldOut = found;
    return heldOut;
  };
  const total = () => session.snapshot.total_cost;
  const costs = () => [0, ...(order()?.steps ?? []).map(step => step.cumulative_cost)];

  // Where most of the improvement is reached: a budget to begin with.
  function firstBudget() {
    if (!isHeldOut(order())) return total();
    const main = mainCurve(order());
    const known = main.values.filter(v => v !== null), start = known[0], end = known.at(-1);
    const k = main.values.findIndex(v => v !== null && (end - start === 0 || (v - start) / (end - start) >= 0.9));
    return main.costs[Math.max(k, 0)];
  }
  function choose(wanted, by) {
    show(wanted, by);
    session.edit({ kind: "choose", budget }, "budget");
  }
  function show(wanted, by) {
    budget = Math.min(total(), Math.max(0, wanted));
    slider.max = String(total());
    field.max = String(total());
    if (by !== slider) slider.value = String(budget);
    if (by !== field) field.value = String(Number(budget.toPrecision(12)));
    shown = null;
    renderAnswer();
  }
  const nextCost = () => costs().find(c => c > budget * (1 + SLACK)) ?? total();
  const previousCost = () => costs().findLast(c => c < budget * (1 - SLACK)) ?? 0;
  slider.addEventListener("input", () => choose(Number(slider.value), slider));
  slider.addEventListener("keydown", event => {
    const to = {
      ArrowRight: nextCost, ArrowUp: nextCost, ArrowLeft: previousCost, ArrowDown: previousCost, Home: () => 0, End: total,
      PageUp: () => budget + total() / 10, PageDown: () => budget - total() / 10,
    }[event.key];
    if (!to || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    choose(to());
  });
  field.addEventListener("input", () => { if (field.value !== "" && Number.isFinite(Number(field.value))) choose(Number(field.value), field); });
  field.addEventListener("change", () => show(budget));
  $("previous").addEventListener("click", () => choose(previousCost()));
  $("next").addEventListener("click", () => choose(nextCost()));
  $("plan-ask").addEventListener("click", () => choose(budget));

  // -- the answer ---------------------------------------------------------------------------------------------------

  function redraw() {
    if (!isHeldOut(order())) { chart = null; return; }
    chart = drawOrder(plot, order(), session.state.unit, widthOf(plot) < 480 ? 250 : 320, choose);
    markBudget(chart, budget);
  }
  onResize(plot, redraw);
  plot.addEventListener("click", event => {
    if (!chart) return;
    const frame = chart.svg.getBoundingClientRect(), { left, right } = chart.box, at = (event.clientX - frame.left) * chart.width / frame.width;
    choose(Math.round((at - left) / (right - left) * total() * 100) / 100);
  });
  function renderAnswer() {
    const found = order();
    if (!isHeldOut(found)) return;
    const { measure, steps } = found, stage = lastWithin(costs(), budget), spent = costs()[stage], rest = budget - spent, next = steps[stage];
    const groupsUntil = k => steps.slice(0, k).filter(step => step.columns).length; // pairs of columns are not counted
    const { value, error, text } = describeValue(found, budget), unit = session.state.unit;
    setText($("budget-label"), `Budget in ${unit}`);
    setText($("budget-number-label"), `Budget in ${unit}, as a number`);
    setText($("quality-label"), found.curve ? `Expected ${measure.label}` : `${measure.label} on the training data`);
    setText($("quality"), text);
    setText($("quality-error"), error === null ? "" : `± ${number(error, measure.style)}`);
    const ends = found.usual_errors?.[stage];
    setText($("usual-error"), ends ? `90 % of the targets differ from an average prediction by ${change(ends[0], "general")} to ${change(ends[1], "general")}` : "");
    setText($("spent"), `${amount(spent)} of ${amount(found.total_cost)} ${unit}`);
    setText($("left"), rest > total() * SLACK && next ? `${amount(rest)} left, too little for the next group` : "");
    setText($("count"), `${groupsUntil(stage)} of ${groupsUntil()}`);
    chips($("bought"), steps.slice(0, stage).map(step => step.group));
    $("next-group").replaceChildren(...(next ? named(next.group) : ["none: all groups are bought"]));
    setText($("next-what"), next ? `costs ${amount(next.cost)}, affordable from a budget of ${amount(next.cumulative_cost)}; changes ${measure.label} by ${change(difference(value, steps[lastWithin(costs(), costs()[stage + 1]) - 1].value), measure.style)}` : "");
    const said = `${amount(budget)} ${unit}: ${groupsUntil(stage)} of ${groupsUntil()} groups, ${measure.label} ${text}`;
    slider.setAttribute("aria-valuetext", said);
    setText($("budget-status"), said);
    $("previous").disabled = budget <= 0;
    $("next").disabled = budget >= total();
    if (chart) markBudget(chart, budget);
    renderPlan(steps.slice(0, stage).map(step => step.group));
  }
  function renderPlan(prefix) {
    const part = session.part("budget"), asked = session.state.budget !== null, fits = part && Math.abs(part.budget - budget) <= 1e-9 * Math.max(1, budget);
    const plan = asked && part ? part.plan : null, fresh = session.fresh("budget") && fits;
    $("plan-ask").hidden = asked;
    const result = $("plan-result");
    result.hidden = !asked;
    dim(result, !fresh);
    result.dataset.fresh = String(Boolean(fresh && !part.searching));
    if (part?.error) setText($("plan-what"), part.error);
    else if (!plan) setText($("plan-what"), "Looking for the best groups within this budget…");
    else {
      const same = plan.groups.length === prefix.length && plan.groups.every(name => prefix.includes(name)), gain = part.prefix_explained ?? null;
      setText($("plan-what"), same ? `The plan buys the same ${count(plan.groups.length, "group")}, for ${amount(plan.cost)}. They explain ${share(plan.explained)} of the differences between training rows.`
        : `Buy these ${count(plan.groups.length, "group")} for ${amount(plan.cost)}. They explain ${share(plan.explained)} of the differences between training rows; the first groups of the order explain ${share(gain)}.`);
    }
    if (plan) chips($("plan-groups"), plan.groups, name => (prefix.includes(name) ? "" : "added"));
    else $("plan-groups").replaceChildren();
    $("plan-proof").hidden = !plan;
    setText($("plan-proof"), plan?.proven ?? "");
    setText($("plan-meaning"), plan?.meaning ?? "");
  }

  // -- what next, effects -------------------------------------------------------------------------------------------

  function makePick(name) {
    const input = el("input", { type: "checkbox", onchange: () => {
      const on = input.checked;
      session.edit(state => ({ kind: "choose", available: [...state.available.filter(g => g !== name), ...(on ? [name] : [])] }));
    } });
    return Object.assign(el("label", { class: "pick-chip" }, input, el("span", {}, name)), { input });
  }
  function renderNext() {
    const part = session.part("next"), result = $("next-result");
    keep($("available"), session.state.groups.map(group => group.name), name => name, makePick, (node, name) => {
      node.input.checked = session.state.available.includes(name);
    });
    dim(result, !session.fresh("next"));
    result.dataset.fresh = String(session.fresh("next"));
    result.hidden = !part;
    if (!part) return;
    const most = Math.max(...part.rows.map(row => row.gain)), best = part.rows[0], along = row => (row.along.length ? ` (with ${row.along.join(", ")})` : "");
    setText($("next-best"), part.error ?? (best ? `Next: ${best.group}${along(best)}, for ${amount(best.cost)}` : "Nothing else helps: you have all useful groups."));
    $("next-rows").closest(".scroll").hidden = !part.rows.length;
    $("next-rows").replaceChildren(...part.rows.map(row => el("tr", {}, el("th", { scope: "row" }, ...named(`${row.group}${along(row)}`)), el("td", { class: "num" }, amount(row.cost)), el("td", { class: "num" }, share(row.gain / most)))));
  }
  // The server draws them, as it does for the report, with all names escaped.
  function effectPicture({ caption, picture }) {
    return el("figure", { class: "effect" }, el("figcaption", {}, caption), new DOMParser().parseFromString(picture, "text/html").body.firstChild);
  }
  function renderEffects() {
    const part = session.part("effects"), box = $("effects");
    dim(box, !session.fresh("effects"));
    box.dataset.fresh = String(session.fresh("effects"));
    if (!part || effectsShown === `${part.serial} ${more}`) return;
    effectsShown = `${part.serial} ${more}`;
    const drawnEffects = more ? part.effects : part.effects.slice(0, MOST_PICTURES);
    setText($("effects-intro"), part.error ?? (part.stage === 0 ? "Nothing is bought at this budget." : `How the prediction changes with each column, ${session.state.budget === null ? "if all groups are bought" : "with the groups of this budget"}.${part.bands ? " Light bands and thin lines show the range in which an effect lies with 90 % probability, taking these groups as given." : ""}`));
    const rest = part.effects.length - drawnEffects.length;
    box.replaceChildren(...drawnEffects.map(effectPicture), ...(rest ? [el("button", { type: "button", onclick: () => { more = true; renderEffects(); } }, `Show ${rest} more`)] : []));
  }

  return () => {
    const found = order(), { budget: wanted, unit } = session.state;
    const result = $("budget-result");
    result.hidden = !isHeldOut(found);
    const fresh = session.fresh("order") && session.part("order") === found;
    dim(result, !fresh);
    result.dataset.fresh = String(fresh);
    const typing = document.activeElement === slider || document.activeElement === field;
    const place = wanted ?? (found ? firstBudget() : total());
    const key = `${place} ${total()} ${found?.serial} ${unit}`;
    if (isHeldOut(found) && drawn !== `${found.serial} ${unit}`) {
      drawn = `${found.serial} ${unit}`;
      curveLegend($("budget-legend"), found);
      redraw();
    }
    if (shown !== key && !(typing && session.pending)) { show(place, typing ? document.activeElement : null); shown = key; } else renderAnswer();
    renderNext();
    renderEffects();
  };
}
