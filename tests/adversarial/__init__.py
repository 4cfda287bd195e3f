"""Attacks on what is promised: kills, full disks, damage, crafted folders, fuzzed input, misuse.

`python -m tests.adversarial --minutes 30` goes through all parts, again and again, with new seeds,
and adds what it did to a file of counts. `test_adversarial.py` does the same for seconds.
"""
