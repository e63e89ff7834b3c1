// Counts in RINGS and never leaves.
    mov x19, x0
1:
    ldr x9, [x19, #{RINGS}]
    add x9, x9, #1
    str x9, [x19, #{RINGS}]
    b 1b
