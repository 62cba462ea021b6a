#!/usr/bin/env python3
"""Usage: notebook.py NOTEBOOK.ipynb [FOLDER]

Runs the code cells of a notebook in their order, in FOLDER (default: a temporary one), and prints what each shows. It
knows the magic %%writefile and nothing else of Jupyter. Ends with status 1 and the cell's number if one fails.
"""
import ast
import json
import os
import pathlib
import sys
import tempfile
import traceback


def show(value):
    if value is not None:
        html = getattr(value, "_repr_html_", None)
        print(html() if html else repr(value))


def run_cell(source, space, name):
    first, _, rest = source.partition("\n")
    if first.startswith("%%writefile "):
        pathlib.Path(first.split(maxsplit=1)[1]).write_text(rest + "\n", encoding="utf-8")
        return
    if first.startswith(("%", "!")):
        raise SyntaxError(f"{first.split()[0]} is a word of Jupyter's that is not known here")
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)
    if last is not None:
        show(eval(compile(ast.Expression(last.value), name, "eval"), space))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.splitlines()[0])
    notebook = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with tempfile.TemporaryDirectory(prefix="tidemill-notebook-") as scratch:
        os.chdir(sys.argv[2] if len(sys.argv) == 3 else scratch)
        sys.path.insert(0, os.getcwd())
        space = {"__name__": "__main__"}
        for number, source in enumerate(cells, 1):
            try:
                run_cell(source, space, f"<cell {number}>")
            except Exception:
                traceback.print_exc()
                print(f"cell {number} of {len(cells)} failed:\n{source}", file=sys.stderr)
                sys.exit(1)
        os.chdir("/")
    print(f"{len(cells)} cells ran")


if __name__ == "__main__":
    main()
