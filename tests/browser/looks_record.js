// What a designer would circle in a page of views, measured: text that is cut, text upon text, text too pale, a page too wide.
// Text on canvases is known from the calls that draw it: `record` runs before the scripts of the page and keeps, of each canvas, the texts
// since it was cleared: where they are, what a clip leaves of them, and how they stand out from what is below them.
(() => {
  const proto = CanvasRenderingContext2D.prototype,
    texts = (window.rfnbTexts = new Map()),
    clips = new WeakMap(),
    seen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const channel = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const box = (t, x, y, w, h) => {
    const points = [
      [x, y],
      [x + w, y],
      [x, y + h],
      [x + w, y + h],
    ].map(([x, y]) => [t.a * x + t.c * y + t.e, t.b * x + t.d * y + t.f]);
    const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
    return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  };
  const meet = (a, b) => [Math.max(a[0], b[0]), Math.max(a[1], b[1]), Math.min(a[2], b[2]), Math.min(a[3], b[3])];
  const of = (g) => clips.get(g) ?? (clips.set(g, { now: null, path: null, stack: [] }), clips.get(g));
  const wrap = (name, before) => {
    const was = proto[name];
    proto[name] = function (...given) {
      before.call(this, ...given);
      return was.apply(this, given);
    };
  };
  wrap("save", function () {
    of(this).stack.push(of(this).now);
  });
  wrap("restore", function () {
    if (of(this).stack.length) of(this).now = of(this).stack.pop();
  });
  wrap("beginPath", function () {
    of(this).path = null;
  });
  wrap("rect", function (x, y, w, h) {
    of(this).path = box(this.getTransform(), x, y, w, h);
  });
  wrap("clip", function () {
    const { path, now } = of(this);
    if (path) of(this).now = now ? meet(now, path) : path;
  });
  wrap("clearRect", function (x, y, w, h) {
    const gone = box(this.getTransform(), x, y, w, h);
    const kept = (texts.get(this.canvas) ?? []).filter(
      ({ inside: at }) => at[0] < gone[0] || at[1] < gone[1] || at[2] > gone[2] || at[3] > gone[3],
    );
    texts.set(this.canvas, kept);
  });
  for (const name of ["width", "height"]) {
    // Of a canvas that gets another size nothing is left.
    const size = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, name);
    Object.defineProperty(HTMLCanvasElement.prototype, name, {
      ...size,
      set(to) {
        texts.delete(this);
        size.set.call(this, to);
      },
    });
  }
  wrap("fillText", function (text, x, y) {
    if (!String(text).trim()) return;
    const { canvas } = this,
      m = this.measureText(text),
      t = this.getTransform();
    const at = box(
      t,
      x - m.actualBoundingBoxLeft,
      y - m.actualBoundingBoxAscent,
      m.actualBoundingBoxLeft + m.actualBoundingBoxRight,
      m.actualBoundingBoxAscent + m.actualBoundingBoxDescent,
    );
    const left = meet(of(this).now ?? [0, 0, canvas.width, canvas.height], [0, 0, canvas.width, canvas.height]);
    const inside = meet(at, left);
    if (inside[2] <= inside[0] || inside[3] <= inside[1]) return;
    const [wide, tall] = [Math.ceil(inside[2] - inside[0]), Math.ceil(inside[3] - inside[1])];
    const paper = this.getImageData(inside[0], inside[1], wide, tall).data;
    seen.reset();
    const colorOver = (over) => {
      seen.fillStyle = over;
      seen.fillRect(0, 0, 1, 1);
      seen.globalAlpha = this.globalAlpha;
      seen.fillStyle = this.fillStyle;
      seen.fillRect(0, 0, 1, 1);
      return seen.getImageData(0, 0, 1, 1).data;
    };
    const page =
      getComputedStyle(canvas.closest(".rfnb-root") ?? document.body).getPropertyValue("--rfnb-paper") || "white";
    const counts = new Map();
    for (let i = 0; i < paper.length; i += 4) {
      const key = paper[i + 3] < 128 ? page : `rgb(${paper[i]},${paper[i + 1]},${paper[i + 2]})`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    const [below] = [...counts].sort((a, b) => b[1] - a[1])[0];
    seen.fillStyle = below;
    seen.fillRect(0, 0, 1, 1);
    const ground = light(seen.getImageData(0, 0, 1, 1).data);
    const list = texts.get(canvas) ?? texts.set(canvas, []).get(canvas);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    list.push({ text: String(text), at, inside, ratio: ratio(ground, light(colorOver(below))), turned: t.b !== 0, dark });
  });
})();
