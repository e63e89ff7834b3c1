// Takes COUNT interrupts of a PL031 clock, whose registers are at ADDRESS: raises each by a store of VALUE, the time of
// the alarm, to its load register (Arm DDI 0224, 3.3), and halts until the handler has served it. The alarm's time and
// the interrupt mask are set by the host. It measures from the first store to the return of the last handler.
20:
    ldr x22, [x19, #{COUNT}]
    ldr x23, [x19, #{ADDRESS}]
    ldr w24, [x19, #{VALUE}]
    isb
    mrs x25, cntvct_el0
1:
    ldr x26, [x19, #{SERVED}]
    isb
    mrs x9, cntvct_el0
    str x9, [x19, #{STAMP}]
    str w24, [x23, #8]
2:
    dsb sy
    wfi
    msr daifclr, #2
    // A pending interrupt is taken here at the latest.
    isb
    msr daifset, #2
    ldr x9, [x19, #{SERVED}]
    cmp x9, x26
    b.eq 2b
    subs x22, x22, #1
    b.ne 1b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x25
    str x9, [x19, #{TICKS}]
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 20b
// Reads the clock's interrupt (register 0x18) and clears it (register 0x1c). If there is none, the interrupt is
// spurious.
30:
    ldr x1, [x19, #{ADDRESS}]
    ldr w0, [x1, #0x18]
    cbz w0, 15b
    mov w0, #1
    str w0, [x1, #0x1c]
    // The line is down before the interrupt ends.
    dsb sy
    ldr x0, [x19, #{ENTERED}]
    ldr x2, [x19, #{STAMP}]
    sub x0, x0, x2
    ldr x2, [x19, #{LATENCY}]
    add x2, x2, x0
    str x2, [x19, #{LATENCY}]
    ldr x2, [x19, #{SERVED}]
    add x2, x2, #1
    str x2, [x19, #{SERVED}]
    b 15b
