#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how many tests of a JUnit report passed, failed and were skipped; "0 1 0" where there is none.

    junit_sums.py REPORT
"""

import sys
import xml.etree.ElementTree as tree

try:
    suite = tree.parse(sys.argv[1]).getroot().find("testsuite").attrib
    bad = int(suite["failures"]) + int(suite["errors"])
    print(int(suite["tests"]) - bad - int(suite["skipped"]), bad, suite["skipped"])
except OSError:
    print(0, 1, 0)
