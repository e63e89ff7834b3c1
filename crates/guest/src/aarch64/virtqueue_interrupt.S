// The program halts after each request until the interrupt of its answer has come. Interrupts are masked except right
// after wfi, which ends when an interrupt is pending, masked or not.
.macro begin
.endm
.macro await_answer
50:
    ldrh w9, [x24, #0x102]
    cmp w9, w25, uxth
    b.eq 5f
    dsb sy
    wfi
    msr daifclr, #2
    isb
    msr daifset, #2
    b 50b
5:
.endm
// Ends the interrupt, which is an edge, before it writes the device's interrupt acknowledge register.
.macro handler
30:
    mov x4, x30
    bl 15b
    mov w0, #1
    str w0, [x23, #0x64]
    ret x4
.endm
