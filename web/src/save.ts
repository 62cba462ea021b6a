// Charts as files: PNG from a canvas or a drawing, CSV from columns.

export interface Column {
  name: string;
  values: (number | string | null | undefined)[];
}

export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function fileName(title: string, extension: string): string {
  return `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}.${extension}`;
}

export function csvCell(value: number | string | null | undefined): string {
  if (value === null || value === undefined) return "";
  let text = String(value);
  // A spreadsheet takes such a text for a formula, and names may come from anywhere.
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export function saveCsv(title: string, columns: Column[]): void {
  const rows = Math.max(0, ...columns.map((column) => column.values.length));
  const lines = [columns.map((column) => csvCell(column.name)).join(",")];
  for (let i = 0; i < rows; ++i) lines.push(columns.map((column) => csvCell(column.values[i])).join(","));
  saveBlob(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }), fileName(title, "csv"));
}

interface LegendEntry {
  name: string;
  color: string;
}

// The picture on the page's own ground, with its title and legend.
export function savePng(title: string, picture: HTMLCanvasElement | HTMLImageElement, legend: LegendEntry[]): void {
  const style = getComputedStyle(document.documentElement);
  const scale = picture instanceof HTMLCanvasElement ? Math.max(1, picture.width / Math.max(1, picture.clientWidth || picture.width)) : 2;
  const width = picture instanceof HTMLCanvasElement ? picture.width : picture.width * scale;
  const height = picture instanceof HTMLCanvasElement ? picture.height : picture.height * scale;
  const head = (legend.length ? 52 : 32) * scale;
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height + head;
  const context = canvas.getContext("2d")!;
  context.fillStyle = style.getPropertyValue("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `600 ${14 * scale}px sans-serif`;
  context.fillText(title, 10 * scale, 21 * scale);
  context.font = `${11 * scale}px sans-serif`;
  let x = 10 * scale;
  for (const entry of legend) {
    context.fillStyle = entry.color;
    context.fillRect(x, 34 * scale, 10 * scale, 10 * scale);
    context.fillStyle = style.getPropertyValue("--soft");
    context.fillText(entry.name, x + 14 * scale, 43 * scale);
    x += 28 * scale + context.measureText(entry.name).width;
  }
  context.drawImage(picture, 0, head, width, height);
  canvas.toBlob((blob) => blob && saveBlob(blob, fileName(title, "png")));
}

const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "font-family", "text-anchor", "opacity"];

// A drawing carries no style sheet when it is an image, so each part takes its own style along.
export function saveSvgPng(title: string, svg: SVGSVGElement): void {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const to = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of COPIED) to[i].setAttribute(name, style.getPropertyValue(name));
  });
  const box = svg.getBoundingClientRect();
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const image = new Image(box.width, box.height);
  image.onload = () => savePng(title, image, []);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
}
