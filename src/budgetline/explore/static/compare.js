// Step 5: this order next to simpler ones and to today's.

import { onResize, widthOf } from "./chart.js";
import { bounds, canvas, costScale, curveAxes, drawSteps, legend, scaleOf, withError } from "./charts.js";
import { $, dim, el, setText } from "./dom.js";
import { some } from "./format.js";

export function setUpCompare(session) {
  const plot = $("compare-plot"), field = $("today");
  let drawn = "", shown = null;
  $("today-form").addEventListener("submit", event => {
    event.preventDefault();
    const names = new Set(session.state.groups.map(group => group.name)), bare = text => (names.has(text) ? text : text.replace(/^\d+[.)]\s*/, ""));
    const lines = field.value.split("\n").flatMap(line => (names.has(line.trim()) ? [line] : line.split(",")));
    session.edit({ kind: "choose", today: lines.map(text => bare(text.trim())).filter(Boolean) });
  });
  $("today-clear").addEventListener("click", () => { field.value = ""; session.edit({ kind: "choose", today: [] }); });

  function redraw() {
    const part = session.part("compare"), order = session.part("order");
    if (!part?.methods?.length || !order?.measure) return;
    const height = widthOf(plot) < 480 ? 250 : 320, { svg, width } = canvas(plot, widthOf(plot), height), total = session.snapshot.total_cost;
    const box = { left: 54, right: width - 10, top: 30, bottom: height - 42 }, curves = part.methods.map(method => method.curve);
    const x = costScale(total, box.left, box.right, width < 480 ? 4 : 7), y = scaleOf(curves.flatMap(c => bounds({ ...c, errors: [] })), box.bottom, box.top, 5);
    curveAxes(svg, box, x, y, order.measure, session.state.unit);
    curves.map((curve, k) => [curve, k]).reverse().forEach(([curve, k]) => drawSteps(svg, curve, x, y, `method-${k % 4}`, total));
    legend($("compare-legend"), part.methods.map((method, k) => [`method-${k % 4}`, method.name]));
  }
  onResize(plot, redraw);

  return () => {
    const part = session.part("compare"), order = session.part("order"), today = session.state.today.join("\n");
    const result = $("compare-result"), fresh = session.fresh("compare");
    result.hidden = !part;
    dim(result, !fresh);
    result.dataset.fresh = String(fresh);
    if (shown !== today && document.activeElement !== field) { field.value = today; }
    shown = today;
    $("compare-problem").hidden = !part?.error;
    setText($("compare-problem"), part?.error ?? "");
    if (!part?.methods || !order?.measure || drawn === `${part.serial} ${order.serial}`) return;
    drawn = `${part.serial} ${order.serial}`;
    const { style } = order.measure;
    $("methods").replaceChildren(...part.methods.map((method, k) => el("tr", { class: k ? "" : "own" }, el("th", { scope: "row" }, method.name, ...(method.note ? [el("span", { class: "note" }, method.note)] : [])),
      el("td", { class: "num" }, withError(method.mean, method.mean_error, style)), el("td", {}, some(method.order, 4)))));
    const same = new Set(part.methods.map(method => JSON.stringify(method.order))).size === 1;
    setText($("compare-same"), same ? "With these prices, all methods give the same order." : "");
    redraw();
  };
}
