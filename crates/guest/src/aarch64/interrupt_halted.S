// Takes COUNT interrupts, each while it is halted; if ADDRESS is not 0, it asks for each by a store of four bytes to
// ADDRESS. Each time the vcpu is entered, it does one run. Interrupts are masked except right after wfi, which ends
// when an interrupt is pending, masked or not. So no interrupt is taken between the comparison and wfi.
20:
    ldr x9, [x19, #{INTERRUPTS}]
    ldr x10, [x19, #{COUNT}]
    add x9, x9, x10
    str x9, [x19, #{TARGET}]
    add x10, x19, #{READY}
    ldr x9, [x10]
    add x9, x9, #1
    stlr x9, [x10]
1:
    ldr x22, [x19, #{INTERRUPTS}]
    ldr x10, [x19, #{TARGET}]
    cmp x22, x10
    b.hs 4f
    ldr x9, [x19, #{ADDRESS}]
    cbz x9, 2f
    str wzr, [x9]
2:
    dsb sy
    wfi
    msr daifclr, #2
    // A pending interrupt is taken here at the latest.
    isb
    msr daifset, #2
    // If wfi ended without an interrupt, it halts again and asks for nothing.
    ldr x9, [x19, #{INTERRUPTS}]
    cmp x9, x22
    b.eq 2b
    b 1b
4:
    str x22, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 20b
30:
    b 15b
