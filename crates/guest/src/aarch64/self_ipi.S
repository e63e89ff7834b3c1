// Sends COUNT interrupts to its own vcpu and measures from the write of the register to the handler's return.
20:
    ldr x22, [x19, #{COUNT}]
    msr daifclr, #2
    isb
    mrs x24, cntvct_el0
1:
    ldr x23, [x19, #{INTERRUPTS}]
    mov x0, xzr
    mov x1, x20
    bl 17b
2:
    ldr x9, [x19, #{INTERRUPTS}]
    cmp x9, x23
    b.eq 2b
    subs x22, x22, #1
    b.ne 1b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x24
    str x9, [x19, #{TICKS}]
    msr daifset, #2
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 20b
30:
    b 15b
