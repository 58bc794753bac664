"use strict";
(() => {
  const root = document.documentElement;
  const drawings = [...document.querySelectorAll(".drawing")];
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const hidden = new Map(); // of each chart, the series that are switched off
  if (!("DecompressionStream" in window && "IntersectionObserver" in window)) return;
  root.classList.add("script");
  for (const drawing of drawings) drawing.style.height = `${drawing.dataset.height}px`;

  // Plotly is unpacked once, when it is first wanted.
  let library = null;
  const load = () => (library ??= unpack());
  async function unpack() {
    const packed = atob(document.getElementById("plotly").textContent);
    const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
    if (!window.Plotly) throw new Error("the charts' library did not start");
    root.classList.add("ready");
  }

  // Colours are names in the figures; the style sheet says what they are, light or dark.
  function painted(value, style, key = "") {
    if (Array.isArray(value)) return value.map((each) => painted(each, style, key));
    if (value !== null && typeof value === "object") {
      const pairs = Object.entries(value).map(([name, each]) => [name, painted(each, style, name)]);
      return Object.fromEntries(pairs);
    }
    if (typeof value === "string" && key.endsWith("color") && value.startsWith("@")) {
      const [name, alpha = ""] = value.slice(1).split("/");
      return style.getPropertyValue(`--${name}`).trim() + alpha;
    }
    return value;
  }

  const chartOf = (drawing) => drawing.closest("[data-chart]").dataset.chart;
  const isDrawn = (drawing) => drawing.classList.contains("js-plotly-plot");

  function draw(drawing) {
    const style = getComputedStyle(root);
    const { data, layout } = painted(figures[drawing.id], style);
    const off = hidden.get(chartOf(drawing)) ?? new Set();
    for (const trace of data) trace.visible = !off.has(trace.meta);
    layout.font.family = getComputedStyle(document.body).fontFamily;
    layout.height = Number(drawing.dataset.height);
    layout.width = drawing.clientWidth;
    layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
    const options = { displayModeBar: false, scrollZoom: false, showTips: false };
    return Plotly.react(drawing, data, layout, options).then(() => point(drawing));
  }

  function fail(error) {
    root.classList.remove("script");
    console.error(error);
  }

  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        load().then(() => draw(target)).then(() => fit.observe(target)).catch(fail);
      }
    },
    { rootMargin: "400px" },
  );
  const fit = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.clientWidth && target.clientWidth !== target.layout?.width) draw(target);
    }
  });
  for (const drawing of drawings) near.observe(drawing);

  const redraw = () => drawings.filter(isDrawn).forEach(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // A legend's buttons switch a series on and off in all drawings of its chart.
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const chart = chartOf(button);
      const off = hidden.get(chart) ?? new Set();
      hidden.set(chart, off);
      const series = Number(button.dataset.series);
      const shown = off.delete(series);
      if (!shown) off.add(series);
      button.setAttribute("aria-pressed", String(shown));
      drawings.filter((each) => chartOf(each) === chart && isDrawn(each)).forEach(draw);
    });
  }

  // Arrow keys go from point to point, and what is there is spoken.
  const spoken = document.getElementById("spoken");
  const places = new WeakMap(); // of each drawing, the point that the keys are at
  function points(drawing) {
    return drawing.data.flatMap(({ hovertext, hoverinfo, visible }, curveNumber) =>
      hoverinfo === "text" && visible !== false
        ? hovertext.map((said, pointNumber) => ({ said, curveNumber, pointNumber }))
        : [],
    );
  }
  function point(drawing) {
    const found = points(drawing)[places.get(drawing)]; // a redrawing keeps the label where it was
    if (found) Plotly.Fx.hover(drawing, [found]);
  }
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  function walk(event) {
    const drawing = event.currentTarget;
    if (!(event.key in steps) || !isDrawn(drawing)) return;
    const found = points(drawing);
    if (!found.length) return;
    event.preventDefault();
    const from = places.get(drawing) ?? (steps[event.key] > 0 ? -1 : 0);
    const place = (from + steps[event.key] + found.length) % found.length;
    places.set(drawing, place);
    point(drawing);
    const { said } = found[place];
    const entities = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };
    spoken.textContent = said
      .replaceAll("<br>", ", ")
      .replace(/&(lt|gt|amp);/g, (entity) => entities[entity]);
  }
  function leave({ currentTarget }) {
    places.delete(currentTarget);
    if (isDrawn(currentTarget)) Plotly.Fx.unhover(currentTarget);
  }
  for (const drawing of drawings) {
    drawing.addEventListener("keydown", walk);
    drawing.addEventListener("blur", leave);
  }

  // Paper is light and narrow, has no folds to open, and cannot wait: plotly must be there by then.
  const opened = [];
  function toPaper() {
    if (root.classList.contains("printing")) return;
    root.classList.add("printing");
    for (const fold of document.querySelectorAll("details:not([open]):not(.numbers)")) {
      fold.open = true;
      opened.push(fold);
    }
    if (window.Plotly) drawings.forEach(draw);
    else root.classList.remove("script");
  }
  function toScreen() {
    root.classList.remove("printing");
    root.classList.add("script");
    for (const fold of opened.splice(0)) fold.open = false;
    redraw();
  }
  addEventListener("beforeprint", toPaper);
  addEventListener("afterprint", toScreen);
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? toPaper() : toScreen()));
  const whenIdle = window.requestIdleCallback ?? ((then) => setTimeout(then, 500));
  addEventListener("load", () => whenIdle(() => load().catch(fail)));
})();
