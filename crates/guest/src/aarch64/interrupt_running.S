// Takes COUNT interrupts while it runs. Each time the vcpu is entered, it does one run.
20:
    ldr x9, [x19, #{INTERRUPTS}]
    ldr x10, [x19, #{COUNT}]
    add x9, x9, x10
    str x9, [x19, #{TARGET}]
    add x10, x19, #{READY}
    ldr x9, [x10]
    add x9, x9, #1
    stlr x9, [x10]
    msr daifclr, #2
1:
    yield
    ldr x9, [x19, #{INTERRUPTS}]
    ldr x10, [x19, #{TARGET}]
    cmp x9, x10
    b.lo 1b
    msr daifset, #2
    str x9, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 20b
// Stores four bytes to ADDRESS, if it is not 0, to notify the device, and ends the interrupt.
30:
    ldr x0, [x19, #{ADDRESS}]
    cbz x0, 15b
    str wzr, [x0]
    b 15b
