document$.subscribe(() => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")  // the theme gives the dialog no name
  // What can be scrolled can be reached by keyboard; the theme wraps tables when a page is shown.
  requestAnimationFrame(() => {
    for (const part of document.querySelectorAll(".md-typeset__scrollwrap, .language-text code")) part.tabIndex = 0
  })
})
