// The curve of an order, with a budget marked on it.

import { amount, bounds, canvas, costScale, curveAxes, draw, drawBand, drawSteps, errorAt, lastWithin, legend, number, scaleOf, walkable, withError, within } from "./charts.js";

// Draw again when the width changes.
export function onResize(plot, drawAgain) {
  new ResizeObserver(() => {
    const width = plot.clientWidth;
    if (width === widths.get(plot) || !width) return;
    widths.set(plot, width);
    drawAgain();
  }).observe(plot);
}
// Widths are kept: to ask for one means to lay out the page at once.
const widths = new WeakMap();
export function widthOf(plot) {
  if (!widths.get(plot)) widths.set(plot, plot.clientWidth);
  return widths.get(plot);
}

// What is drawn: held-out folds if they are there, else the training data, up to what the whole order costs.
export const mainCurve = order => within(order.curve ?? order.training, order.total_cost);
// An order that is only a first guess has no curve yet.
export const isHeldOut = order => Boolean(order?.steps.length && order.measure);

// Draw the order's curve. Returns the scales, so that a budget can be marked without drawing all again.
export function drawOrder(plot, order, unit, height, choose) {
  const { svg, width } = canvas(plot, widthOf(plot), height), main = mainCurve(order), { measure, steps } = order, total = order.total_cost;
  const box = { left: 54, right: width - 10, top: 30, bottom: height - 42 };
  const curves = [main, ...(order.curve && order.training ? [order.training] : [])];
  const x = costScale(total, box.left, box.right, width < 480 ? 4 : 7);
  const y = scaleOf(curves.flatMap(bounds), box.bottom, box.top, 5);
  const area = draw(svg, "rect", { class: "spent-area", x: box.left, y: box.top, height: box.bottom - box.top, width: 0 });
  curveAxes(svg, box, x, y, measure, unit);
  drawBand(svg, main, x, y, total);
  if (curves.length > 1) drawSteps(svg, order.training, x, y, "line-training", total);
  drawSteps(svg, main, x, y, "line-main", total);
  const now = draw(svg, "line", { class: "now", y1: box.top, y2: box.bottom });
  const stages = [{ cumulative_cost: 0, group: "no group", point: 0 }, ...steps];
  const value = k => main.values[stages[k].point];
  const shown = stages.map((_, k) => k).filter(k => value(k) !== null && value(k) !== undefined), small = shown.length > 60;
  const dots = shown.map(k => draw(svg, "circle", { class: small ? "dot small" : "dot", r: small ? 1.75 : 4, cx: x.place(stages[k].cumulative_cost), cy: y.place(value(k)) }));
  const mark = draw(svg, "circle", { class: "mark", r: 7 });
  const describe = i => {
    const stage = stages[shown[i]], at = stage.point;
    return [shown[i] ? `${shown[i]}. ${stage.group}` : "No group", `budget ${amount(stage.cumulative_cost)}`, `${measure.label} ${withError(main.values[at], errorAt(main, at), measure.style)}`];
  };
  walkable(plot, dots, describe, i => choose(stages[shown[i]].cumulative_cost), width);
  const scales = { svg, x, y, box, area, now, mark, width, main, total };
  markBudget(scales, null);
  return scales;
}
export function markBudget({ x, y, box, area, now, mark, main }, budget) {
  const none = budget === null, value = none ? null : main.values[lastWithin(main.costs, budget)] ?? null;
  for (const node of [area, now, mark]) node.setAttribute("visibility", none || (node === mark && value === null) ? "hidden" : "visible");
  if (none) return;
  const at = Math.min(x.place(budget), box.right);
  area.setAttribute("width", Math.max(0, at - box.left));
  now.setAttribute("x1", at);
  now.setAttribute("x2", at);
  mark.setAttribute("cx", at);
  if (value !== null) mark.setAttribute("cy", y.place(value));
}
export function curveLegend(place, order) {
  const held = order.curve !== null, folds = order.measure.folds;
  legend(place, [
    ["main", held ? `held-out rows (mean of ${folds} folds)` : "training rows"],
    ...(held && order.curve.errors?.length ? [["band", "uncertainty (± one standard error)"]] : []),
    ...(held && order.training ? [["training", "training rows"]] : []),
  ]);
}
export const describeValue = (order, budget) => {
  const main = mainCurve(order), k = lastWithin(main.costs, budget);
  return { value: main.values[k] ?? null, error: errorAt(main, k), text: number(main.values[k] ?? null, order.measure.style) };
};
