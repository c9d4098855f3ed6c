// One slide at a time, by keys, buttons and the address; without this script all slides stand below each other, as on paper.
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  const body = document.body;
  const said = document.querySelector(".bar output");
  let at = 0;

  const waiting = (slide) => [...slide.querySelectorAll(".waits")];
  // A formula that is wider than the slide gets smaller letters: nobody scrolls at a board.
  const fit = () => slides[at].querySelectorAll(".formula").forEach((formula) => {
    formula.style.fontSize = "";
    const wide = formula.scrollWidth / formula.clientWidth;
    if (wide > 1) formula.style.fontSize = `${(0.98 * parseFloat(getComputedStyle(formula).fontSize)) / wide}px`;
  });
  const show = (to, whole) => {
    at = Math.max(0, Math.min(slides.length - 1, to));
    slides.forEach((slide, number) => slide.classList.toggle("on", number === at));
    waiting(slides[at]).forEach((part) => part.classList.toggle("later", !whole));
    fit();
    said.textContent = `${at + 1} of ${slides.length}`;
    if (location.hash !== `#${at + 1}`) history.replaceState(null, "", `#${at + 1}`);
    slides[at].focus({ preventScroll: true });
  };
  const go = (by) => {
    const later = waiting(slides[at]).find((part) => part.classList.contains("later"));
    if (by > 0 && later) later.classList.remove("later");
    else if (at + by >= 0 && at + by < slides.length) show(at + by, by < 0);
  };
  const ofAddress = () => show((parseInt(location.hash.slice(1), 10) || 1) - 1, true);
  const dark = (on) => { body.dataset.theme = on ? "dark" : "light"; };

  const keys = {
    ArrowRight: () => go(1), PageDown: () => go(1), " ": () => go(1),
    ArrowLeft: () => go(-1), PageUp: () => go(-1),
    Home: () => show(0), End: () => show(slides.length - 1, true),
    c: () => {
      const folded = [...slides[at].querySelectorAll("details.code")];
      const open = folded.some((part) => !part.open);
      folded.forEach((part) => { part.open = open; });
    },
    n: () => body.classList.toggle("with-notes"),
    d: () => dark(body.dataset.theme !== "dark"),
    p: () => print(),
  };
  // On the way down: a view keeps the keys that it hears to itself.
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    // What has the focus keeps its keys: a view is led by arrows, a button pressed by the space bar.
    const own = event.target.closest(".rfnb-root, input, select, textarea, button, summary, a");
    if (own && event.key !== "PageDown" && event.key !== "PageUp") {
      if (event.key === "Escape") slides[at].focus();
      return;
    }
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }, true);
  document.querySelectorAll("[data-go]").forEach((button) => button.addEventListener("click", () => go(Number(button.dataset.go))));
  addEventListener("hashchange", ofAddress);
  addEventListener("resize", fit);

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.code:not([open])")];
    opened.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));

  slides.forEach((slide) => { slide.tabIndex = -1; slide.style.outline = "none"; });
  dark(matchMedia("(prefers-color-scheme: dark)").matches);
  body.classList.add("led");
  if (slides.length) ofAddress();
})();
