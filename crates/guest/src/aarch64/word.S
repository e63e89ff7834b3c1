// Adds 1 to the doorbell word. The store releases, so that a reader that sees the word sees what was stored before.
// x0 = parameters. Each time the vcpu is entered, the program does one run of COUNT operations.
    mov x19, x0
1:
    ldr x22, [x19, #{COUNT}]
    add x24, x19, #{WORD}
    isb
    mrs x23, cntvct_el0
2:
3:
    ldxr x9, [x24]
    add x9, x9, #1
    stlxr w10, x9, [x24]
    cbnz w10, 3b
    subs x22, x22, #1
    b.ne 2b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x23
    str x9, [x19, #{TICKS}]
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 1b
