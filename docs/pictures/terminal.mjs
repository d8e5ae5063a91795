// Draws screens of a terminal as an SVG: node terminal.mjs COLUMNS [FILE SECONDS]... >picture.svg
//
// Each file is a screen as `tmux capture-pane -e -p` prints it. Several screens follow each other
// in time, with a pause of so many seconds after each.
import { readFileSync } from 'node:fs';

const [columns, ...words] = process.argv.slice(2);
const WIDTH = 8, HEIGHT = 18, MARGIN = 14;
const COLOURS = ['#15191f', '#ff6b61', '#3fb68b', '#ffb02e', '#4a9eff', '#c792ea', '#4fc1d0', '#c9d1d9'];
const BRIGHT = ['#7d8590', '#ff8e86', '#5fd6a8', '#ffc766', '#7ab8ff', '#dbb4f5', '#7fdbe6', '#ffffff'];

/** The colour of SGR `5;n`. */
const indexed = n => n < 8 ? COLOURS[n] : n < 16 ? BRIGHT[n - 8]
  : n > 231 ? grey(8 + 10 * (n - 232)) : rgb([36, 6, 1].map(by => Math.floor((n - 16) / by) % 6).map(it => it && 55 + 40 * it));
const rgb = parts => '#' + parts.map(it => it.toString(16).padStart(2, '0')).join('');
const grey = level => rgb([level, level, level]);

const plain = () => ({ fore: null, back: null, bold: false, dim: false, reverse: false });

function apply(style, codes) {
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at];
    const colour = () => codes[at + 1] === 5 ? indexed(codes[at += 2]) : rgb(codes.slice(at + 2, (at += 4) + 1));
    if (code === 0) Object.assign(style, plain());
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 22) style.bold = style.dim = false;
    else if (code === 7) style.reverse = true;
    else if (code === 27) style.reverse = false;
    else if (code >= 30 && code < 38) style.fore = COLOURS[code - 30];
    else if (code === 38) style.fore = colour();
    else if (code === 39) style.fore = null;
    else if (code >= 40 && code < 48) style.back = COLOURS[code - 40];
    else if (code === 48) style.back = colour();
    else if (code === 49) style.back = null;
    else if (code >= 90 && code < 98) style.fore = BRIGHT[code - 90];
    else if (code >= 100 && code < 108) style.back = BRIGHT[code - 100];
  }
}

const escaped = text => text.replace(/[&<>]/g, it => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[it]);

function run(text, column, row, { fore, back, bold, dim, reverse }) {
  const [ink, paper] = reverse ? [back ?? COLOURS[0], fore ?? COLOURS[7]] : [fore ?? COLOURS[7], back];
  const [x, y, width] = [MARGIN + column * WIDTH, MARGIN + row * HEIGHT, text.length * WIDTH];
  const box = paper ? `<rect x="${x}" y="${y}" width="${width}" height="${HEIGHT}" fill="${paper}"/>` : '';
  if (!text.trim()) return box;
  const extra = (bold ? ' font-weight="bold"' : '') + (dim ? ' opacity=".65"' : '');
  const fill = ink === COLOURS[7] ? '' : ` fill="${ink}"`;
  return `${box}<text x="${x}" y="${y + 13}" textLength="${width}"${fill}${extra}>${escaped(text)}</text>`;
}

/** The rows of a screen, without the empty ones at its end. */
function screen(file) {
  const rows = readFileSync(file, 'utf8').trimEnd().split('\n');
  const style = plain();
  const drawn = rows.map((line, row) => {
    let column = 0, drawn = '';
    for (const part of line.split(/(\x1b\[[\d;]*m)/)) {
      const codes = part.match(/^\x1b\[([\d;]*)m$/);
      if (codes) { apply(style, codes[1].split(';').map(Number)); continue; }
      // Words apart keep their columns, whatever the font is.
      for (const [text] of part.matchAll(/\S+(?: \S+)*|\s+/g)) {
        drawn += run(text, column, row, style);
        column += text.length;
      }
    }
    return drawn;
  });
  return { rows: rows.length, drawn: drawn.join('\n') };
}

const frames = [];
for (let at = 0; at < words.length; at += 2) frames.push({ ...screen(words[at]), seconds: Number(words[at + 1]) });
const total = frames.reduce((sum, frame) => sum + frame.seconds, 0);
const width = columns * WIDTH + 2 * MARGIN;
const height = Math.max(...frames.map(frame => frame.rows)) * HEIGHT + 2 * MARGIN;

let style = '', body = '', begin = 0;
frames.forEach(({ drawn, seconds }, at) => {
  const [from, to] = [begin, begin += seconds].map(it => (100 * it / total).toFixed(2));
  // A viewer without animations shows the last screen.
  const rest = at === frames.length - 1 ? 'visible' : 'hidden';
  if (frames.length > 1) {
    style += `.f${at}{visibility:${rest};animation:f${at} ${total}s step-end infinite}`;
    style += `@keyframes f${at}{0%{visibility:${at ? 'hidden' : 'visible'}}${from}%{visibility:visible}${at === frames.length - 1 ? '' : `${to}%{visibility:hidden}`}}`;
  }
  body += `<g class="f${at}">${drawn}</g>\n`;
});
process.stdout.write(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="13" fill="${COLOURS[7]}" xml:space="preserve">
<style>${style}</style><rect width="100%" height="100%" rx="8" fill="#0f1319"/>
${body}</svg>
`);
