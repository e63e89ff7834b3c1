# Counts in RINGS and never leaves.
2:
    inc qword ptr [rdi + {RINGS}]
    jmp 2b
