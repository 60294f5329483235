// Step 2: groups and prices.

import { download } from "./api.js";
import { amount } from "./charts.js";
import { ask } from "./dialog.js";
import { $, el, keep, onCommit, saveAs, setField, setText } from "./dom.js";
import { count, some } from "./format.js";

const LONG = 20, MOST_CHIPS = 4, NEW = "new:", OUT = "out:", TO = "to:";

export function setUpGroups(session, complain) {
  const chosen = new Set();
  let wanted = "", dragged = null;
  const groupsOf = () => session.state.groups;
  const find = name => groupsOf().find(group => group.name === name);
  const picked = () => groupsOf().filter(group => chosen.has(group.columns[0]));

  // -- columns as chips: drag them, or press them for a dialog ------------------------------------------------------

  async function moveColumns(columns, from, to) {
    const names = groupsOf().map(group => group.name), unused = session.state.left_out;
    const options = columns ? (from ? from.columns : unused) : [...groupsOf().flatMap(group => group.columns), ...unused];
    const choices = [...names.filter(name => name !== from?.name).map(name => [TO + name, name]), [NEW, "a new group"], ...(from || !columns ? [[OUT, "left out"]] : [])];
    const show = () => {
      const isNew = $("dialog-to").value === NEW;
      for (const id of ["dialog-name", "dialog-cost"]) $(id).closest("p").hidden = !isNew;
    };
    const answer = await ask({
      title: columns ? "Move columns" : "New group", ok: columns ? "Move" : "Make the group", live: show,
      fields: [
        { type: "checks", name: "columns", label: "Columns", options, chosen: columns ?? picked().flatMap(group => group.columns) },
        { type: "select", name: "to", label: "Move to", options: choices, value: to ?? choices[0][0] },
        { type: "text", name: "name", label: "Name of the new group", value: "" },
        { type: "number", name: "cost", label: "Its cost", value: "1" },
      ],
    });
    if (answer?.columns.length) put(answer.columns, answer.to, answer.name.trim(), answer.cost);
  }
  function put(columns, to, name, cost) {
    if (to === OUT) return session.edit({ kind: "leave_out", columns });
    if (to === NEW) return session.edit({ kind: "new_group", columns, ...(name ? { name } : {}), ...(cost ? { cost: Number(cost) } : {}) });
    return session.edit({ kind: "move_columns", columns, group: to.slice(TO.length) });
  }
  function chip(column, group) {
    return el("li", {}, el("button", {
      type: "button", class: "chip", draggable: "true", "aria-label": `Move ${column}`, title: "Drag to another group, or press to move",
      onclick: () => moveColumns([column], group ? find(group) : null),
      ondragstart: event => { dragged = column; event.dataTransfer.setData("text/plain", column); event.dataTransfer.effectAllowed = "move"; document.body.classList.add("dragging"); },
      ondragend: () => { dragged = null; document.body.classList.remove("dragging"); },
    }, column));
  }
  // `to()` says where a dropped column goes.
  function dropTarget(node, to) {
    node.addEventListener("dragover", event => { if (dragged !== null) { event.preventDefault(); node.classList.add("over"); } });
    node.addEventListener("dragleave", event => { if (!node.contains(event.relatedTarget)) node.classList.remove("over"); });
    node.addEventListener("drop", event => {
      event.preventDefault();
      node.classList.remove("over");
      if (dragged !== null) put([dragged], to());
    });
  }
  function fillChips(list, columns, group) {
    const key = JSON.stringify([columns, group, list.whole]);
    if (list.key === key) return;
    list.key = key;
    const most = list.whole || columns.length <= MOST_CHIPS ? columns.length : MOST_CHIPS - 2, rest = columns.length - most;
    const more = () => { list.whole = true; fillChips(list, columns, group); list.children[most].firstChild.focus(); };
    list.replaceChildren(...columns.slice(0, most).map(column => chip(column, group)),
      ...(rest ? [el("li", {}, el("button", { type: "button", class: "quiet more", "aria-label": `${rest} more columns of ${group ?? "those left out"}`, onclick: more }, `${rest} more`))] : []));
  }

  // -- rows ---------------------------------------------------------------------------------------------------------

  function setCost(row, text, field) {
    const cost = Number(text);
    if (text === "" || !(cost >= 0) || !Number.isFinite(cost)) {
      complain(`The cost of ${row.group.name} must be 0 or a positive number.`, field);
      return false;
    }
    const { name } = row.group;
    session.edit({ kind: "set_costs", costs: { [name]: cost } });
    return true;
  }
  function rename(row, name, field) {
    if (!name.trim()) { complain(`${row.group.name} needs a name.`, field); return false; }
    session.edit({ kind: "rename_group", group: row.group.name, name: name.trim() });
    return true;
  }
  async function setNeeds(group) {
    const answer = await ask({
      title: `What does ${group.name} need first?`, intro: "These groups must be bought before it.", ok: "Save",
      fields: [{ type: "checks", name: "requires", label: "Groups", options: groupsOf().map(g => g.name).filter(name => name !== group.name), chosen: group.requires }],
    });
    if (answer) session.edit({ kind: "set_requires", group: group.name, requires: answer.requires });
  }
  function makeRow(group) {
    const key = group.columns[0];
    const choose = el("input", { type: "checkbox", onchange: () => { chosen[choose.checked ? "add" : "delete"](key); renderTools(); row.classList.toggle("chosen", choose.checked); } });
    const name = el("input", { type: "text", class: "name-field", autocomplete: "off", spellcheck: "false" });
    const cost = el("input", { type: "number", class: "cost-field", min: 0, step: "any", inputmode: "decimal" });
    const needs = el("button", { type: "button", class: "quiet", onclick: () => setNeeds(row.group) });
    const columns = el("ul", { class: "chips" });
    const row = el("tr", {}, el("td", { class: "choose" }, choose), el("td", { class: "name" }, name), el("td", { class: "columns" }, columns),
      el("td", { class: "cost num" }, el("span", { class: "small-label", "aria-hidden": "true" }, "Cost"), cost),
      el("td", { class: "needs" }, needs));
    onCommit(name, text => rename(row, text, name));
    onCommit(cost, text => setCost(row, text, cost), 500);
    dropTarget(row, () => TO + row.group.name);
    return Object.assign(row, { choose, name, cost, needs, columns });
  }
  function updateRow(row, group) {
    row.group = group;
    row.dataset.group = group.name;
    row.classList.toggle("chosen", chosen.has(group.columns[0]));
    row.choose.checked = chosen.has(group.columns[0]);
    row.choose.setAttribute("aria-label", `Select ${group.name}`);
    setField(row.name, group.name);
    row.name.title = group.name;
    row.name.setAttribute("aria-label", `Name of group ${group.name}`);
    setField(row.cost, amount(group.cost));
    row.cost.setAttribute("aria-label", `Cost of ${group.name}`);
    setText(row.needs, group.requires.length ? some(group.requires, 2) : "nothing");
    row.needs.setAttribute("aria-label", `${group.name} needs ${some(group.requires, 6).replace(/^none$/, "nothing")} first. Change`);
    fillChips(row.columns, group.columns, group.name);
    row.hidden = wanted !== "" && ![group.name, ...group.columns].some(name => name.toLowerCase().includes(wanted));
  }

  // -- selected groups ----------------------------------------------------------------------------------------------

  function renderTools() {
    const found = picked(), n = found.length;
    setText($("chosen"), n ? `${n} selected` : "None selected");
    $("merge").disabled = n < 2;
    $("split").disabled = !found.some(group => group.columns.length > 1);
    $("price").disabled = n === 0;
    $("leave-out").disabled = n === 0;
    $("choose-all").checked = n > 0 && n === groupsOf().length;
    $("choose-all").indeterminate = n > 0 && n < groupsOf().length;
  }
  function unchoose() {
    chosen.clear();
    render();
  }
  $("choose-all").addEventListener("change", () => {
    chosen.clear();
    if ($("choose-all").checked) for (const row of $("group-rows").children) if (!row.hidden) chosen.add(row.group.columns[0]);
    render();
  });
  $("merge").addEventListener("click", async () => {
    const names = picked().map(group => group.name), first = picked()[0].columns[0];
    chosen.clear();
    if (await session.edit({ kind: "merge_groups", groups: names })) {
      const field = $("group-rows").kept.get(first)?.name;
      field?.focus();
      field?.select();
    }
    render();
  });
  $("split").addEventListener("click", () => {
    session.edit(picked().filter(group => group.columns.length > 1).map(group => ({ kind: "split_group", group: group.name })));
    unchoose();
  });
  $("price").addEventListener("click", async () => {
    const names = picked().map(group => group.name);
    const answer = await ask({ title: `Cost of ${count(names.length, "group")}`, intro: some(names, 8), ok: "Set", fields: [{ type: "number", name: "cost", label: "Cost of each", value: "1", required: true }] });
    if (answer) session.edit({ kind: "set_costs", costs: Object.fromEntries(names.map(name => [name, Number(answer.cost)])) });
  });
  $("leave-out").addEventListener("click", () => {
    session.edit({ kind: "leave_out", columns: picked().flatMap(group => group.columns) });
    unchoose();
  });
  $("new-group").addEventListener("click", () => moveColumns(null, null, NEW));
  $("groups-find").addEventListener("input", () => { wanted = $("groups-find").value.toLowerCase(); render(); });
  dropTarget($("unused"), () => OUT);

  // -- shared costs, files ------------------------------------------------------------------------------------------

  async function editShared(old) {
    const answer = await ask({
      title: old ? `Shared cost: ${old.name}` : "A shared cost", intro: "It is paid once, with the first of these groups.", ok: "Save", extra: old ? "Remove" : "",
      fields: [
        { type: "text", name: "name", label: "Name", value: old?.name ?? "", required: true },
        { type: "number", name: "cost", label: "Cost", value: amount(old?.cost ?? 1), required: true },
        { type: "checks", name: "groups", label: "Groups that share it", options: groupsOf().map(group => group.name), chosen: old?.groups ?? picked().map(group => group.name) },
      ],
    });
    if (!answer) return;
    const made = answer === "extra" ? [] : [{ name: answer.name.trim(), cost: Number(answer.cost), groups: answer.groups }];
    const put = shared => (old ? shared.flatMap(each => (each.name === old.name ? made : [each])) : [...shared, ...made]);
    session.edit(state => ({ kind: "choose", shared: put(state.shared) }));
  }
  $("add-shared").addEventListener("click", () => editShared(null));
  $("import").addEventListener("click", () => $("import-file").click());
  $("import-file").addEventListener("change", () => {
    const [file] = $("import-file").files;
    $("import-file").value = "";
    if (file) session.edit(async () => ({ kind: "import_groups", yaml: await file.text() }));
  });
  $("export").addEventListener("click", async () => {
    try {
      const { blob, name } = await download("groups");
      saveAs(blob, name);
    } catch (error) {
      complain(error.message);
    }
  });

  function render() {
    const { groups, left_out, shared, unit } = session.state, firsts = new Set(groups.map(group => group.columns[0]));
    for (const key of chosen) if (!firsts.has(key)) chosen.delete(key);
    setText($("cost-head"), unit === "cost units" ? "Cost" : `Cost in ${unit}`);
    $("groups-find-box").hidden = groups.length <= LONG;
    keep($("group-rows"), groups, group => group.columns[0], makeRow, updateRow);
    fillChips($("unused-columns"), left_out, null);
    $("unused").classList.toggle("empty", !left_out.length);
    $("shared").replaceChildren(...shared.map(each => el("li", {}, el("span", {}, el("b", {}, each.name), ` costs ${amount(each.cost)}, shared by ${some(each.groups, 6)} `),
      el("button", { type: "button", class: "quiet", "aria-label": `Change shared cost ${each.name}`, onclick: () => editShared(each) }, "Change…"))));
    renderTools();
  }
  return render;
}
