document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")  // the theme gives the dialog no name
  // Tables that can be scrolled can be reached by keyboard; the theme wraps them when a page is shown.
  requestAnimationFrame(() => {
    for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) wrap.tabIndex = 0
  })
})
