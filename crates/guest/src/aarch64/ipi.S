// The first vcpu sends COUNT interrupts to the second, each after the second has counted the previous one.
20:
    cbnz x20, 3f
    // The second vcpu increments READY when it is ready, once for each run. STAMP counts the runs.
    ldr x25, [x19, #{STAMP}]
    add x25, x25, #1
    str x25, [x19, #{STAMP}]
    add x26, x19, #{READY}
    add x27, x19, #{INTERRUPTS}
1:
    yield
    ldar x9, [x26]
    cmp x9, x25
    b.lo 1b
    ldr x22, [x19, #{COUNT}]
    isb
    mrs x24, cntvct_el0
2:
    ldar x23, [x27]
    mov x0, xzr
    mov x1, #1
    bl 17b
1:
    yield
    ldar x9, [x27]
    cmp x9, x23
    b.eq 1b
    subs x22, x22, #1
    b.ne 2b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x24
    str x9, [x19, #{TICKS}]
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 20b
3:
    ldr x9, [x19, #{INTERRUPTS}]
    ldr x10, [x19, #{COUNT}]
    add x9, x9, x10
    str x9, [x19, #{TARGET}]
    msr daifclr, #2
    add x10, x19, #{READY}
    ldr x9, [x10]
    add x9, x9, #1
    stlr x9, [x10]
4:
    yield
    ldr x9, [x19, #{INTERRUPTS}]
    ldr x10, [x19, #{TARGET}]
    cmp x9, x10
    b.lo 4b
    msr daifset, #2
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 3b
30:
    b 15b
