# SPDX-License-Identifier: Apache-2.0
"""Types of command-line words that the comparisons take."""
import argparse


def listed(convert):
    return lambda text: [convert(word) for word in text.split(",")]


def one_of(names):
    def check(word):
        if word not in names:
            raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(names)}")
        return word
    return check


def at_least(least):
    def check(word):
        if not word.isdigit() or int(word) < least:
            raise argparse.ArgumentTypeError(f"'{word}' is not a number of at least {least}")
        return int(word)
    return check
