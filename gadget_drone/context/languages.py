"""Which languages a list of files is in, by their names."""

from collections import Counter
from collections.abc import Iterable

_LANGUAGES = {
    "Python": "py pyi",
    "TypeScript": "ts tsx mts cts",
    "JavaScript": "js jsx mjs cjs",
    "Rust": "rs",
    "Go": "go",
    "Java": "java",
    "Kotlin": "kt kts",
    "Scala": "scala sc",
    "C": "c h",
    "C++": "cc cpp cxx hh hpp hxx",
    "C#": "cs",
    "F#": "fs fsx",
    "Swift": "swift",
    "Objective-C": "m mm",
    "Ruby": "rb",
    "PHP": "php",
    "Perl": "pl pm",
    "Lua": "lua",
    "R": "r",
    "Julia": "jl",
    "Haskell": "hs",
    "OCaml": "ml mli",
    "Elixir": "ex exs",
    "Erlang": "erl",
    "Clojure": "clj cljs cljc",
    "Dart": "dart",
    "Zig": "zig",
    "Shell": "sh bash zsh",
    "PowerShell": "ps1",
    "SQL": "sql",
    "HTML": "html htm",
    "CSS": "css scss sass less",
    "Vue": "vue",
    "Svelte": "svelte",
    "Terraform": "tf",
    "Protocol Buffers": "proto",
    "Jupyter": "ipynb",
}
_OF_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}
_MOST = 6
_LITTLE = 0.05


def languages(paths: Iterable[str]) -> str:
    """Such as `Python 70 %, TypeScript 30 %, a little Shell`, by number of files; "" for none.

    Rounded to tens: a file more or less must not change a prompt.
    """
    counts: Counter[str] = Counter()
    for suffix, count in Counter(path.rpartition(".")[2] for path in paths if "." in path).items():
        if (language := _OF_SUFFIX.get(suffix.lower())) is not None:
            counts[language] += count
    total = sum(counts.values())
    ranked = sorted(counts, key=lambda language: (-counts[language], language))[:_MOST]
    much = [language for language in ranked if counts[language] >= _LITTLE * total]
    shares = [f"{language} {max(10, round(10 * counts[language] / total) * 10)} %" for language in much]
    little = ", ".join(sorted(set(ranked) - set(much)))
    return ", ".join([*shares, *([f"a little {little}"] if little else [])])
