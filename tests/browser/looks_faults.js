// The faults of the page as sentences, of text in elements and of what looks_record.js has kept.
() => {
  const faults = new Set(),
    short = (text) => JSON.stringify(text.length > 40 ? text.slice(0, 39) + "…" : text);
  if (document.documentElement.scrollWidth > innerWidth)
    faults.add(`the page is ${document.documentElement.scrollWidth - innerWidth} px too wide`);
  const g = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (color, below) => {
    for (const fill of [below, color]) {
      g.fillStyle = fill;
      g.fillRect(0, 0, 1, 1);
    }
    const [r, green, b] = [...g.getImageData(0, 0, 1, 1).data].map((c) =>
      c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * r + 0.7152 * green + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one, other), light(other, other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const paperOf = (root) => (root && getComputedStyle(root).getPropertyValue("--rfnb-paper").trim()) || "white";
  const all = [];
  for (const [canvas, texts] of window.rfnbTexts) {
    if (!canvas.isConnected || !canvas.checkVisibility()) continue;
    const root = canvas.closest(".rfnb-root"),
      frame = canvas.getBoundingClientRect(),
      scale = canvas.width / frame.width || 1;
    for (const { text, at, inside, ratio, turned, dark } of texts) {
      const cut = Math.max(inside[0] - at[0], at[2] - inside[2]) / scale,
        name = `${root?.dataset.kind}: canvas ${short(text)}`;
      const pane = canvas.closest(".rfnb-pane"),
        scrolls = pane && pane.scrollWidth > pane.clientWidth + 1;
      if (cut > 1.5 && !scrolls) faults.add(`${name} is cut by ${cut.toFixed(0)} px`);
      if (ratio < 4.45) faults.add(`${name} has contrast ${ratio.toFixed(1)}`);
      if (dark !== matchMedia("(prefers-color-scheme: dark)").matches) faults.add(`${name} is of the other scheme`);
      all.push({
        root,
        name,
        turned,
        box: [0, 1, 2, 3].map((n) => inside[n] / scale + (n % 2 ? frame.top : frame.left)),
      });
    }
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    const el = node.parentElement,
      text = node.data.trim(),
      style = el && getComputedStyle(el);
    if (
      !text ||
      !el.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) ||
      el.closest("option, select, script, style, noscript")
    )
      continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const root = el.closest(".rfnb-root"),
      name = `${root?.dataset.kind}: ${short(text)}`;
    let clip = null;
    for (let up = el; up; up = up.parentElement) {
      const { overflowX, clipPath } = getComputedStyle(up);
      if (up.getBoundingClientRect().width <= 1.5 || clipPath !== "none") {
        clip = "unseen";
        break;
      }
      if (overflowX === "auto" || overflowX === "scroll") {
        clip = clip ?? up;
        break;
      }
      if (overflowX !== "visible") clip = clip ?? up;
    }
    if (clip === "unseen") continue;
    const boxes = [...range.getClientRects()].filter(({ width, height }) => width > 1 && height > 1);
    for (const one of boxes) {
      let [left, right, top, bottom] = [one.left, one.right, one.top, one.bottom];
      if (clip) {
        const edge = clip.getBoundingClientRect(),
          scrolls = /auto|scroll/.test(getComputedStyle(clip).overflowX);
        if (!scrolls && Math.max(edge.left - left, right - edge.right) > 1.5 && !el.closest("svg"))
          faults.add(`${name} is cut`);
        [left, right, top, bottom] = [
          Math.max(left, edge.left),
          Math.min(right, edge.right),
          Math.max(top, edge.top),
          Math.min(bottom, edge.bottom),
        ];
        if (right - left < 1 || bottom - top < 1) continue;
      }
      if (el.closest("svg") && contrast(style.fill, paperOf(root)) < 4.45)
        faults.add(`${name} has too little contrast`);
      const lead = Math.max(0, (bottom - top - parseFloat(style.fontSize)) / 2); // of the line, above and below the letters
      all.push({ root, name, node, box: [left, top + lead, right, bottom - lead] });
    }
  }
  all.forEach((a, i) =>
    all.slice(i + 1).forEach((b) => {
      if (a.turned || b.turned || (a.node && a.node === b.node)) return;
      const over = [
        Math.min(a.box[2], b.box[2]) - Math.max(a.box[0], b.box[0]),
        Math.min(a.box[3], b.box[3]) - Math.max(a.box[1], b.box[1]),
      ];
      if (over[0] > 2 && over[1] > 3) faults.add(`${a.name} lies upon ${b.name}`);
    }),
  );
  return [...faults];
};
