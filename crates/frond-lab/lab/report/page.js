// Charts of the pages: each from the JSON that follows its element, drawn when it is seen, again when the theme changes.
// Style: pure functions from data to ECharts options; the data (figure.rs) says what is drawn, this how.
"use strict";
(() => {
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { text: of("--text"), soft: of("--soft"), line: of("--line"), ground: of("--raised") };
  };
  const escape = (text) =>
    String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

  // Numbers, as number.rs writes them.
  const digits = (value) =>
    Math.abs(value) >= 99.95
      ? Math.round(value).toLocaleString("en-US")
      : String(Number(value.toPrecision(3)));
  const scaled = (value, step, units) => {
    let at = 0;
    while (Math.abs(value) >= step && at + 1 < units.length) { value /= step; at += 1; }
    return `${digits(value)} ${units[at]}`;
  };
  const human = (value, unit) => {
    if (unit === "B") return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
    if (unit === "µs") return scaled(value, 1000, ["µs", "ms", "s"]);
    return `${digits(value)}${unit === "1/s" ? "/s" : unit ? ` ${unit}` : ""}`;
  };
  // On an axis 25,000,000 is 25 M.
  const tick = (value, unit) => {
    if (unit === "B" || unit === "µs") return human(value, unit);
    const [by, sign] = Math.abs(value) >= 1e9 ? [1e9, " G"] : Math.abs(value) >= 1e6 ? [1e6, " M"]
      : Math.abs(value) >= 1e4 ? [1e3, " k"] : [1, ""];
    return `${digits(value / by)}${sign}`;
  };
  const nice = (value, unit) => {
    if (unit !== "B") return undefined; // ECharts' own steps
    const power = 2 ** Math.floor(Math.log2(value / 3));
    return Math.max(power, 1);
  };

  const axis = (data, colors, place) => {
    const base = {
      name: data.name, nameLocation: "middle", nameGap: place === "y" ? 0 : 26,
      nameTextStyle: { color: colors.soft, fontSize: 12 },
      axisLabel: { color: colors.soft, hideOverlap: true, formatter: (value) => tick(value, data.unit) },
      axisLine: { lineStyle: { color: colors.line } }, axisTick: { lineStyle: { color: colors.line } },
      splitLine: { show: place === "y" || place === "bars", lineStyle: { color: colors.line, opacity: .6 } },
      minorSplitLine: { show: false },
    };
    if (data.scale === "log") return { ...base, type: "log", logBase: 10, min: data.min ?? undefined };
    if (data.scale === "log2") return { ...base, type: "log", logBase: 2 };
    if (data.scale === "names") {
      return { ...base, type: "category", data: data.names, boundaryGap: false,
        axisLabel: { color: colors.soft, interval: 0, alignMaxLabel: "right", alignMinLabel: "left" } };
    }
    return { ...base, type: "value", min: place === "y" || place === "bars" ? 0 : "dataMin",
      max: place === "x" ? "dataMax" : undefined, splitNumber: 4 };
  };
  const tooltip = (colors, formatter) => ({
    confine: true, backgroundColor: colors.ground, borderColor: colors.line,
    textStyle: { color: colors.text, fontSize: 12 }, formatter,
  });

  // Curves: the value of each name nearest to the pointer.
  const lines = (data, colors, hidden) => {
    const shown = data.lines.filter((line) => !hidden.has(line.name));
    const few = (line) => line.points.length <= 20;
    const series = shown.map((line) => ({
      type: "line", name: line.name, data: line.points, showSymbol: few(line), symbol: line.look.symbol, symbolSize: 7,
      silent: line.is_faint, z: line.is_faint ? 1 : 3, color: line.look.color,
      lineStyle: { width: line.is_faint ? 1 : 2, opacity: line.is_faint ? .35 : 1, type: line.look.dash },
      itemStyle: { color: line.look.color, opacity: line.is_faint ? .35 : 1 }, emphasis: { disabled: true },
      markLine: line.mark ? {
        silent: true, symbol: "none", animation: false, z: 5,
        lineStyle: { color: line.look.color, width: 6, opacity: .4, type: "solid" },
        label: { show: true, position: "insideEndTop", color: colors.text, fontSize: 11, formatter: line.mark.text,
          textBorderColor: colors.page, textBorderWidth: 3 },
        data: [[{ coord: [line.mark.from, line.mark.level] }, { coord: [line.mark.to, line.mark.level] }]],
      } : undefined,
    }));
    const label = (items) => {
      const strong = items.filter((item) => !shown[item.seriesIndex].is_faint);
      if (!strong.length) return "";
      const x = strong[0].value[0];
      const at = data.x.scale === "names" ? data.x.names[x] : human(x, data.x.unit);
      const rows = strong.map((item) => `${item.marker}${escape(item.seriesName)} <b>${escape(human(item.value[1], data.y.unit))}</b>`);
      return [`${escape(at)} ${escape(data.x.scale === "names" ? "" : data.x.unit ? "" : data.x.name)}`, ...rows].join("<br>");
    };
    return {
      grid: { left: 4, right: 14, top: 26, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      xAxis: axis(data.x, colors, "x"),
      yAxis: { ...axis(data.y, colors, "y"), nameLocation: "end", nameGap: 10, nameTextStyle: { color: colors.soft, align: "left", fontSize: 12 } },
      tooltip: { trigger: "axis", ...tooltip(colors, label) }, series,
    };
  };

  // Bars: the name and value stand at the left, so nothing is written over a bar.
  const bars = (data, colors, width) => {
    const names = [...new Set(data.bars.flatMap((bar) => bar.parts.map((part) => part.name)))];
    const value = (bar, name) => bar.parts.find((part) => part.name === name)?.value;
    const series = names.map((name, at) => ({
      type: "bar", name, stack: data.is_stacked ? "all" : undefined, barMaxWidth: 18, emphasis: { disabled: true },
      data: data.bars.map((bar) => ({
        value: value(bar, name),
        itemStyle: { color: bar.look.color, opacity: at === 0 ? 1 : .45,
          borderColor: bar.look.color, borderWidth: at === 0 ? 0 : 1 },
      })),
      markLine: at === 0 && data.limit ? {
        silent: true, symbol: "none", data: [{ xAxis: data.limit.value }],
        lineStyle: { color: colors.text, type: "dashed" },
        label: { formatter: data.limit.text, color: colors.text, position: "end", fontSize: 11 },
      } : undefined,
    }));
    const dots = data.bars.flatMap((bar, at) => bar.parts.flatMap((part) => part.repeats.map((v) => [v, at])));
    if (dots.length > data.bars.length) {
      series.push({ type: "scatter", data: dots, symbolSize: 5, silent: true, z: 6,
        itemStyle: { color: colors.page, borderColor: colors.text, borderWidth: 1 } });
    }
    const wide = width < 500 ? 118 : 190;
    const label = (items) => {
      const bar = data.bars[items[0].dataIndex];
      const parts = bar.parts.map((part) => `${part.name ? `${escape(part.name)} ` : ""}<b>${escape(human(part.value, data.x.unit))}</b>`);
      return [`${escape(bar.name)}`, ...parts].join("<br>");
    };
    const most = Math.max(0, data.limit?.value ?? 0, ...data.bars.map((bar) => {
      const values = bar.parts.flatMap((part) => [part.value, ...part.repeats]);
      return data.is_stacked ? bar.parts.reduce((sum, part) => sum + part.value, 0) : Math.max(...values);
    }));
    return {
      grid: { left: wide, right: 16, top: data.limit ? 22 : 6, bottom: data.x.name ? 40 : 22, outerBoundsMode: "none" },
      xAxis: { ...axis(data.x, colors, "bars"), interval: most > 0 ? nice(most, data.x.unit) : undefined, min: 0 },
      yAxis: {
        type: "category", inverse: true, data: data.bars.map((bar) => bar.name), axisTick: { show: false },
        axisLine: { lineStyle: { color: colors.line } },
        axisLabel: {
          interval: 0, width: wide - 10, overflow: "truncate", color: colors.text, fontSize: 12, lineHeight: 15,
          formatter: (name, at) => `{name|${name}}\n{value|${data.bars[at].label}}`,
          rich: { name: { color: colors.text, fontSize: 12, lineHeight: 15 }, value: { color: colors.soft, fontSize: 11, lineHeight: 14 } },
        },
      },
      tooltip: { trigger: "axis", axisPointer: { type: "none" }, ...tooltip(colors, label) }, series,
    };
  };

  const points = (data, colors) => ({
    grid: { left: 4, right: 24, top: 26, bottom: 34, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: { ...axis(data.x, colors, "bars"), splitLine: { show: false }, max: undefined,
      interval: nice(Math.max(...data.points.map((point) => point.at[0])), data.x.unit) },
    yAxis: { ...axis(data.y, colors, "y"), nameLocation: "end", nameGap: 10, nameTextStyle: { color: colors.soft, align: "left", fontSize: 12 } },
    tooltip: { trigger: "item", ...tooltip(colors, (item) =>
      `${escape(item.name)}<br>${escape(human(item.value[0], data.x.unit))}, ${escape(human(item.value[1], data.y.unit))}`) },
    series: [{
      type: "scatter", symbolSize: 14, emphasis: { disabled: true }, labelLayout: { hideOverlap: false, moveOverlap: "shiftY" },
      data: data.points.map((point) => ({ name: point.name, value: point.at, symbol: point.look.symbol,
        itemStyle: { color: point.look.color },
        label: { position: point.at[0] > Math.max(...data.points.map((p) => p.at[0])) * .7 ? "left" : "right" } })),
      label: { show: true, formatter: "{b}", color: colors.text, fontSize: 12 },
    }],
  });

  // Names of the curves, as buttons that hide them.
  const names = (element, data, hidden, redraw) => {
    const looks = new Map(data.lines.map((line) => [line.name, line.look]));
    if (looks.size < 2 && !data.lines.some((line) => line.name)) return;
    const list = document.createElement("ul");
    list.className = "names";
    list.setAttribute("aria-label", "Curves; press one to hide it");
    const dash = { solid: "", dashed: "6 4", dotted: "2 3" };
    const mark = { circle: '<circle cx="13" cy="6" r="4"/>', rect: '<rect x="9.5" y="2.5" width="7" height="7"/>',
      triangle: '<path d="M13 1.5 17.5 10h-9z"/>', diamond: '<path d="M13 1 18 6 13 11 8 6z"/>' };
    for (const [name, look] of looks) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.innerHTML = `<svg viewBox="0 0 26 12" aria-hidden="true" fill="${look.color}"><path d="M0 6h26" stroke="${look.color}" stroke-width="2" stroke-dasharray="${dash[look.dash]}"/>${mark[look.symbol] ?? mark.circle}</svg>`;
      button.append(name);
      button.addEventListener("click", () => {
        const isShown = hidden.delete(name) || !hidden.add(name);
        button.setAttribute("aria-pressed", String(isShown));
        redraw();
      });
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
    }
    element.before(list);
  };

  const draw = (script) => {
    const element = document.getElementById(script.dataset.for);
    const data = JSON.parse(script.textContent);
    if (!element || !data) return;
    const hidden = new Set();
    element.classList.add("drawn");
    const tall = data.kind === "bars"
      ? 60 + data.bars.length * (data.is_stacked ? 38 : 38 + 12 * (Math.max(...data.bars.map((bar) => bar.parts.length)) - 1))
      : 320;
    element.style.height = `${tall}px`;
    const chart = echarts.init(element, null, { renderer: "svg" });
    const make = { lines, bars, points }[data.kind];
    const redraw = () => {
      const colors = { ...theme(), page: getComputedStyle(document.body).backgroundColor };
      const option = make(data, colors, data.kind === "bars" ? element.clientWidth : hidden);
      chart.setOption({ animation: false, textStyle: { fontFamily: "inherit" }, ...option }, true);
    };
    if (data.kind === "lines") names(element, data, hidden, redraw);
    redraw();
    prefersDark.addEventListener("change", redraw);
    new ResizeObserver(() => { if (element.clientWidth) { chart.resize(); if (data.kind === "bars") redraw(); } }).observe(element);
  };

  // A chart in closed details has no width: it is drawn when they open.
  const pending = new Set(document.querySelectorAll("script[data-for]"));
  const drawVisible = () => {
    for (const script of pending) {
      if (script.closest("details:not([open])")) continue;
      pending.delete(script);
      draw(script);
    }
  };
  document.addEventListener("toggle", drawVisible, true);
  drawVisible();
})();
