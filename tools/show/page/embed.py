#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a C++ constant of text files: a list with each one's text.

embed.py NAME OUTPUT FILE...
"""
import sys

# Some compilers accept no longer string literals.
LONGEST = 65000


def literal(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if ")embedded" in text or len(text.encode()) > LONGEST:
        sys.exit(f"embed.py: {path} does not fit a string literal: cut it in two")
    return f'R"embedded({text})embedded"'


def main():
    name, output, *files = sys.argv[1:]
    with open(output, "w", encoding="utf-8") as file:
        file.write('#include "show/page/page_parts.hpp"\n\n'
                   f"const std::vector<std::string_view> ccoll::show::{name} = {{\n")
        file.write(",\n".join(literal(path) for path in files))
        file.write("};\n")


main()
