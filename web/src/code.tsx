// Program text with its words coloured. One rough grammar for C and Python does for reading.

const KEYWORDS = new Set(
  "auto break case char const continue default do double else enum extern float for goto if int long register return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false NULL include define def class import from as pass None True False and or not in is lambda with yield try except finally raise elif".split(" "),
);

const PARTS = /(\/\/[^\n]*|\/\*[\s\S]*?\*\/|#[^\n]*)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(\b\d[\w.]*\b)|([A-Za-z_]\w*)/g;

export function Code(props: { text: string }) {
  const out: preact.ComponentChild[] = [];
  let end = 0;
  for (const match of props.text.matchAll(PARTS)) {
    const [text, comment, string, digits, word] = match;
    if (match.index > end) out.push(props.text.slice(end, match.index));
    end = match.index + text.length;
    if (comment) out.push(<span class="k-comment">{text}</span>);
    else if (string) out.push(<span class="k-string">{text}</span>);
    else if (digits) out.push(<span class="k-number">{text}</span>);
    else if (word && KEYWORDS.has(word)) out.push(<span class="k-word">{text}</span>);
    else out.push(text);
  }
  out.push(props.text.slice(end));
  return <pre class="code">{out}</pre>;
}
