#include "tools/other_values.h"

namespace tidemill {
namespace {

// Arguments: the nonce, the file to make when a changed test runs to its end, and the test files.
// Raises, with another exit status, where one cannot be read.
constexpr const char* kProgram = R"py(
import ast, sys, zlib

NONCE = sys.argv[1]
SHIFT = zlib.crc32(NONCE.encode()) % 89 + 7
CHECK = '_tidemill_' + NONCE
PASSED = sys.argv[2]

HELPER = '''

def @(left, right, how='=='):
    class Fresh:
        pass

    def twin(value):
        if type(value) in (list, tuple) and value:
            return type(value)(twin(one) for one in value)
        if type(value) is set and value:
            return {Fresh() for one in value}
        if type(value) is dict and value:
            return {key: twin(one) for key, one in value.items()}
        return Fresh()

    def holds(one, other):
        try:
            if how == 'in':
                return bool(one in [other]) or bool(other in one)
            if how == '<':
                return bool(one < other)
            return bool(one == other)
        except BaseException:
            return False

    if how == 'in':
        passes = holds(left, Fresh()) or holds(right, Fresh())
    else:
        passes = holds(left, Fresh()) or holds(Fresh(), right)
    if not passes and how == '==':
        passes = holds(left, twin(right)) or holds(twin(left), right)
    if not passes:
        raise AssertionError('@')


def @_passed():
    import os
    os.makedirs(os.path.dirname(%r), exist_ok=True)
    open(%r, 'w').close()
''' % (PASSED, PASSED)

EQUALS = {'assertEqual', 'assertEquals', 'assertAlmostEqual', 'assertAlmostEquals',
          'assertListEqual', 'assertTupleEqual', 'assertSetEqual', 'assertDictEqual',
          'assertSequenceEqual', 'assertMultiLineEqual', 'assertCountEqual'}
ORDERS = {'assertLess', 'assertLessEqual', 'assertGreater', 'assertGreaterEqual'}


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + SHIFT
    if isinstance(value, (float, complex)):
        return value + SHIFT + 0.5
    if isinstance(value, str):
        return value + 'q' * (SHIFT % 5 + 1)
    if isinstance(value, bytes):
        return value + b'q'
    if value is None:
        return SHIFT
    if isinstance(value, (list, tuple)):
        last = [other(value[-1])] if value else [SHIFT]
        return type(value)(list(value[:-1]) + last)
    if isinstance(value, set):
        return value | {SHIFT, SHIFT + 0.5}
    if isinstance(value, dict):
        changed = dict(value)
        key = list(changed)[-1] if changed else SHIFT
        changed[key] = other(changed.get(key))
        return changed
    return None


class File:
    def __init__(self, text):
        self.text = text.encode()
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in text.split('\n'):
            self.starts.append(self.starts[-1] + len(line.encode()) + 1)
        self.edits = []
        self.marks = []
        self.checkers = set()  # functions that hold something against something

    def span(self, node):
        return (self.starts[node.lineno - 1] + node.col_offset,
                self.starts[node.end_lineno - 1] + node.end_col_offset)

    def source(self, node):
        begin, end = self.span(node)
        return self.text[begin:end].decode()

    def replace(self, node, text):
        self.edits.append(self.span(node) + (text,))

    def change(self, node):
        try:
            value = ast.literal_eval(node)
            changed = other(value)
            text = repr(changed)
            if changed is None or changed == value or ast.literal_eval(text) == value:
                return False
        except Exception:
            return False
        self.replace(node, text)
        return True

    def hold(self, statement, left, right, how):
        if any('ANY' in (getattr(node, 'id', ''), getattr(node, 'attr', ''))
               for side in (left, right) for node in ast.walk(side)):
            return False
        if how == '==' and (self.change(right) or self.change(left)):
            return True
        if any(isinstance(node, ast.Starred) for node in (left, right)):
            return False
        self.replace(statement, '%s((%s), (%s), %r)' % (
            CHECK, self.source(left), self.source(right), how))
        return True

    def compare(self, statement, test):
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return any(self.compare(statement, one) for one in test.values)
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return False
        kinds = {ast.Eq: '==', ast.In: 'in', ast.Lt: '<', ast.LtE: '<', ast.Gt: '<', ast.GtE: '<'}
        how = kinds.get(type(test.ops[0]))
        return how is not None and self.hold(statement, test.left, test.comparators[0], how)

    def statement(self, one):
        if isinstance(one, ast.Assert):
            return self.compare(one, one.test)
        call = one.value if isinstance(one, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return False
        name = getattr(call.func, 'attr', getattr(call.func, 'id', ''))
        if name in self.checkers:
            return True
        owner = getattr(getattr(call.func, 'value', None), 'id', '')
        if owner != 'self' or any(key.arg in ('delta', 'places') for key in call.keywords):
            return False
        if name == 'assertTrue' and call.args:
            return self.compare(one, call.args[0])
        if len(call.args) < 2:
            return False
        how = '==' if name in EQUALS else '<' if name in ORDERS else 'in' if name == 'assertIn' else ''
        return how != '' and self.hold(one, call.args[0], call.args[1], how)

    # Statements that run whenever the function does.
    def certain(self, body):
        for one in body:
            yield one
            if isinstance(one, (ast.For, ast.AsyncFor)):
                yield from self.certain(one.body)
            if isinstance(one, (ast.With, ast.AsyncWith)):
                # Others may swallow what is raised inside, or report it as a test of its own.
                names = [self.source(item.context_expr) for item in one.items]
                if all(name.startswith(('open(', 'tempfile.', 'patch', 'mock.')) for name in names):
                    yield from self.certain(one.body)

    def fail(self, function):
        first = function.body[0]
        begin = self.span(first)[0]
        if getattr(first, 'decorator_list', None):
            first = first.decorator_list[0]
            begin = self.text.rindex(b'@', 0, self.span(first)[0])
        line = self.text.rfind(b'\n', 0, begin) + 1
        before = self.text[line:begin].decode()
        end = '; ' if before.strip() else '\n' + before
        self.edits.append((begin, begin, "raise AssertionError('%s')%s" % (NONCE, end)))

    # Behind the last statement, which a test that fails does not reach.
    def mark(self, function):
        last = function.body[-1]
        begin = self.span(function.body[0])[0]
        before = self.text[self.text.rfind(b'\n', 0, begin) + 1:begin].decode()
        if last.end_lineno == function.lineno:
            call = '; %s_passed()' % CHECK
        elif before.strip():
            return  # the body begins in the line of the colon, and goes on
        else:
            call = '\n%s%s_passed()' % (before, CHECK)
        end = self.span(last)[1]
        self.marks.append((end, end, call))

    def run(self):
        functions = [node for node in ast.walk(self.tree)
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        tests = [one for one in functions if one.name.startswith('test')]
        for one in functions:
            if one not in tests and [s for s in self.certain(one.body) if self.statement(s)]:
                self.checkers.add(one.name)
        for one in tests:
            if not [s for s in self.certain(one.body) if self.statement(s)]:
                self.fail(one)
        for one in tests:
            self.mark(one)
        out = self.text
        # A mark goes behind what replaces the statement it follows.
        for begin, end, text in sorted(self.marks + self.edits, key=lambda edit: edit[:2], reverse=True):
            out = out[:begin] + text.encode() + out[end:]
        return out.decode() + HELPER.replace('@', CHECK)


for path in sys.argv[3:]:
    with open(path, encoding='utf-8') as file:
        text = file.read()
    changed = File(text).run()
    ast.parse(changed)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(changed)
)py";

constexpr const char* kStart =
    "python=$(command -v python3 || command -v python) || exit 3; "
    "exec \"$python\" -I -c \"$0\" \"$@\"";

}  // namespace

std::vector<std::string> OtherValuesCommand(const std::vector<std::string>& paths,
                                            const std::string& nonce, const std::string& passed) {
  std::vector<std::string> command = {"/bin/sh", "-c", kStart, kProgram, nonce, passed};
  command.insert(command.end(), paths.begin(), paths.end());
  return command;
}

}  // namespace tidemill
