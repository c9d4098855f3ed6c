// Each hit says what kind of page it is, and shows where the words stand. A page that was opened as a file may fetch no others, so
// the texts of all pages are at hand (texts.js).
DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
(() => {
  const BEFORE = 80;
  const LENGTH = 240;

  function excerpt(page, words) {
    const text = rfnbText(page);
    const low = text.toLowerCase();
    // Where most of the words stand together, the first such place.
    let best = 0;
    let most = 0;
    for (const word of words) {
      for (let at = low.indexOf(word); at >= 0; at = low.indexOf(word, at + word.length)) {
        const around = low.slice(Math.max(0, at - BEFORE), at - BEFORE + LENGTH);
        const found = words.filter(each => around.includes(each)).length;
        if (found > most) [best, most] = [at, found];
      }
    }
    const start = Math.max(0, best - BEFORE);
    const paragraph = document.createElement("p");
    paragraph.className = "context";
    const shown = (start ? "… " : "") + text.slice(start, start + LENGTH).trim() + (start + LENGTH < text.length ? " …" : "");
    const parts = words.length ? shown.split(new RegExp(`(${words.map(word => word.replace(/[^\p{L}\p{N}_]/gu, "")).join("|")})`, "iu")) : [shown];
    parts.forEach((part, at) => {
      const piece = at % 2 ? document.createElement("mark") : document.createTextNode("");
      piece.textContent = part;
      paragraph.append(piece);
    });
    return paragraph;
  }

  function tell(hit) {
    const link = hit.querySelector("a");
    if (!link || hit.dataset.told) return;
    hit.dataset.told = "yes";
    const root = new URL(document.documentElement.dataset.content_root || "./", location.href).href;
    const page = decodeURI(link.href.split("#")[0].slice(root.length)).replace(/\.html$/, "");
    const kind = rfnbKind(page)[1];
    if (kind) {
      const label = document.createElement("span");
      label.className = "rfnb-kind";
      label.textContent = kind;
      link.after(" ", label);
    }
    if (rfnbText(page)) hit.append(excerpt(page, rfnbWords()));
  }

  addEventListener("DOMContentLoaded", () => {
    const results = document.getElementById("search-results");
    if (!results) return;
    new MutationObserver(() => results.querySelectorAll("li").forEach(tell)).observe(results, { childList: true, subtree: true });
  });
})();
