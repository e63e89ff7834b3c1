// VALUE 0: sends COUNT interrupts to its own vcpu, ends each, and measures only the ends. VALUE 1: sends COUNT
// interrupts, each of a higher priority than the previous one, and leaves them active. VALUE 2: ends COUNT interrupts,
// the last one first.
20:
    str xzr, [x19, #{TICKS}]
    ldr x22, [x19, #{COUNT}]
    ldr x24, [x19, #{VALUE}]
    cmp x24, #2
    b.eq 6f
    mov x23, xzr
    msr daifclr, #2
1:
    ldr x25, [x19, #{INTERRUPTS}]
    mov x0, x23
    mov x1, x20
    bl 17b
2:
    ldr x9, [x19, #{INTERRUPTS}]
    cmp x9, x25
    b.eq 2b
    add x23, x23, x24
    subs x22, x22, #1
    b.ne 1b
    msr daifset, #2
5:
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 20b
6:
    sub x5, x22, #1
    bl 15b
    subs x22, x22, #1
    b.ne 6b
    b 5b
// The end is between the second and the third reading of the counter. The first two readings give the cost of
// measuring, which is subtracted. A tick of the counter is longer than an end, so only the mean over many is
// meaningful. Each measurement begins a few instructions later than the previous one, so that they begin at different
// places within a tick.
30:
    cbnz x24, 8f
    mov x17, x30
    and x0, x22, #0xf
7:
    subs x0, x0, #1
    b.pl 7b
    bl 4f
    mov x2, x0
    bl 4f
    mov x3, x0
    bl 15b
    bl 4f
    sub x0, x0, x3
    sub x0, x0, x3
    add x0, x0, x2
    ldr x1, [x19, #{TICKS}]
    add x1, x1, x0
    str x1, [x19, #{TICKS}]
    mov x30, x17
8:
    ret
// The second isb keeps the end from beginning before the counter is read.
4:
    isb
    mrs x0, cntvct_el0
    isb
    ret
