// Tables that can be scrolled can be reached by keyboard; the theme wraps them when a page is shown.
document$.subscribe(() =>
  requestAnimationFrame(() => {
    for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) wrap.tabIndex = 0
  }))
