// Live curves with uPlot, in place of the pictures that the server drew. Raw lines stay visible under smoothed ones.

const COLORS = 10;
const HEIGHT = 190;
const plots = [];
// Positions are whole numbers.
const INCREMENTS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((unit) => unit * 10 ** power)).flat();

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Plot {
  constructor(figure) {
    this.figure = figure;
    this.place = figure.querySelector(".picture");
    this.url = figure.dataset.url;
    this.metric = figure.dataset.metric;
    this.isLog = new URLSearchParams(location.search).get("log") === "1";
    this.chart = null;
    this.shape = "";
  }

  show(panel) {
    if (!panel || !panel.lines.some((line) => line.x.length)) return;
    const smooth = panel.lines.some((line) => line.smooth);
    const tables = panel.lines.flatMap((line) => (smooth ? [[line.x, line.y], [line.x, line.smooth]] : [[line.x, line.y]]));
    const data = uPlot.join(tables);
    if (this.isLog) for (const column of data.slice(1)) column.forEach((value, i) => { if (value <= 0) column[i] = null; });
    const shape = JSON.stringify([panel.lines.map((line) => line.label), smooth]);
    if (this.chart && shape === this.shape) {
      this.chart.setData(data);
    } else {
      this.shape = shape;
      this.chart?.destroy();
      this.place.replaceChildren();
      this.chart = new uPlot(this.options(panel, smooth), data, this.place);
      this.chart.root.setAttribute("role", "img");
      this.chart.root.setAttribute("aria-label", panel.metric);
    }
    this.panel = panel;
    this.legend(panel);
    this.figure.dataset.last = JSON.stringify(panel.lines.map((line) => [line.x.at(-1), line.y.at(-1)]));
  }

  options(panel, smooth) {
    const text = style("--faint");
    const rule = style("--rule");
    const series = [{}];
    panel.lines.forEach((line, number) => {
      const color = style(`--s${number % COLORS}`);
      if (smooth) series.push({ label: `${line.label} raw`, stroke: `${color}48`, width: 1, points: { show: false }, spanGaps: true });
      series.push({ label: line.label, stroke: color, width: 1.5, spanGaps: true, points: { show: line.x.length < 30, size: 4, fill: color } });
    });
    const axis = { stroke: text, font: "11px system-ui, sans-serif", grid: { stroke: rule, width: 1 }, ticks: { show: false } };
    return {
      width: this.place.clientWidth || 430, height: HEIGHT, padding: [8, 10, 0, 0], legend: { show: false },
      cursor: { drag: { x: true, y: false }, points: { size: 6 } },
      scales: { x: { time: false }, y: { distr: this.isLog ? 3 : 1 } },
      axes: [{ ...axis, size: 26, incrs: INCREMENTS }, { ...axis, size: 56 }],
      series,
      hooks: { setCursor: [(chart) => this.legend(this.panel, chart.cursor.idx)], draw: [(chart) => this.markOpen(chart)] },
    };
  }

  // A dashed line where the part begins that no snapshot has yet.
  markOpen(chart) {
    const from = this.panel?.lines.map((line) => line.open_from).filter((each) => each !== null) ?? [];
    if (!from.length) return;
    const x = chart.valToPos(Math.min(...from), "x", true);
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = style("--faint");
    ctx.setLineDash([3, 4]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  legend(panel, index = null) {
    if (!panel) return;
    const list = this.figure.querySelector(".legend");
    const at = index === null || index === undefined || !this.chart ? null : this.chart.data[0][index];
    const items = panel.lines.map((line, number) => {
      const item = document.createElement("li");
      const key = document.createElement("span");
      key.className = `key s${number % COLORS}`;
      const label = document.createElement("span");
      label.className = "label";
      label.textContent = line.label;
      const place = at === null ? line.y.length - 1 : line.x.indexOf(at);
      const value = document.createElement("b");
      value.textContent = place < 0 ? "–" : Number(line.y[place].toPrecision(5)).toString();
      value.title = place < 0 ? "" : `${line.y[place]} at ${line.x[place]}`;
      item.append(...(panel.lines.length > 1 ? [key, label, " ", value] : [key, " ", value]));
      if (at === null && line.num_open) {
        const open = document.createElement("span");
        open.className = "faint";
        open.textContent = ` ${line.num_open} not yet in a snapshot`;
        item.append(open);
      }
      return item;
    });
    list.replaceChildren(...items);
  }
}

// One request serves all figures with the same address.
const cursors = new Map();

export async function refreshAll() {
  for (const url of new Set(plots.map((plot) => plot.url))) {
    const address = new URL(url, location.href);
    if (cursors.has(url)) address.searchParams.set("after", cursors.get(url));
    const answer = await fetch(address, { cache: "no-store" });
    if (answer.status !== 200) continue;
    const found = await answer.json();
    cursors.set(url, found.cursor);
    for (const plot of plots.filter((each) => each.url === url)) {
      plot.show(found.panels.find((panel) => panel.metric === plot.metric));
    }
  }
}

export function drawAll() {
  for (const figure of document.querySelectorAll("figure.plot[data-url]")) plots.push(new Plot(figure));
  if (plots.length) refreshAll().catch(() => {});
  new ResizeObserver(() => {
    for (const plot of plots) {
      const width = plot.place.clientWidth;
      if (plot.chart && width && Math.abs(width - plot.chart.width) > 1) plot.chart.setSize({ width, height: HEIGHT });
    }
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const plot of plots) {
      plot.shape = "";
      plot.show(plot.panel);
    }
  });
}
