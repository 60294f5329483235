// What is wrong with a page: fields without a name, ids that occur twice, skipped headings, low contrast, overflow.
() => {
  const found = [], seen = node => node.checkVisibility({ visibilityProperty: true }) && !node.closest(".unseen");
  const nameOf = node => node.getAttribute("aria-label") || document.getElementById(node.getAttribute("aria-labelledby"))?.textContent
      || [...(node.labels ?? [])].map(label => label.textContent).join("") || (node.tagName === "BUTTON" ? node.textContent : "");
  for (const node of document.querySelectorAll("input, select, textarea, button, svg[role], [tabindex='0'], section"))
      if (seen(node) && !nameOf(node).trim()) found.push("no name: " + node.outerHTML.slice(0, 120));
  const ids = [...document.querySelectorAll("[id]")].map(node => node.id);
  found.push(...ids.filter((id, k) => ids.indexOf(id) !== k).map(id => "twice: " + id));
  let level = 0;
  for (const node of document.querySelectorAll("h1, h2, h3, h4")) if (seen(node)) {
      if (Number(node.tagName[1]) > level + 1) found.push("heading: " + node.textContent);
      level = Number(node.tagName[1]);
  }
  const parse = text => text.match(/[\d.]+/g).map(Number);
  const light = rgb => rgb.slice(0, 3).map(c => c / 255).map(c => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
  for (const node of document.querySelectorAll("body *")) {
      const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
      if (!own || !seen(node) || node.closest(":disabled, [aria-disabled=true], svg, dialog, noscript")) continue;
      let back = node;
      while (back && (parse(getComputedStyle(back).backgroundColor)[3] ?? 1) === 0) back = back.parentElement;
      const pair = [getComputedStyle(node).color, getComputedStyle(back ?? document.body).backgroundColor].map(text => light(parse(text)) + 0.05);
      if (Math.max(...pair) / Math.min(...pair) < 4.5) found.push("contrast: " + node.outerHTML.slice(0, 120));
  }
  for (const node of document.querySelectorAll("main *")) if (seen(node) && !node.closest(".scroll, pre, svg, .chips, .pictures, .picks"))
      if (node.getBoundingClientRect().right > innerWidth + 1) found.push("too wide: " + node.outerHTML.slice(0, 120));
  if (document.documentElement.scrollWidth > innerWidth) found.push("scrolls sideways");
  return found;
}
