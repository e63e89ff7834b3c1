// Takes COUNT interrupts of a PL031 clock (Arm DDI 0224), whose registers are at ADDRESS: raises each by a store of VALUE,
// the time of the alarm, to its load register, and waits until the handler has served it. First it reads the clock's
// identification. The host sets the alarm's time and the mask. Words of the page:
// 0x400 HOLD: while it is not 0, the handler waits at its start
// 0x408 HELD: handlers that have begun
// 0x410 AGAIN: how many more handlers raise the alarm a second time, after they have cleared the first
// 0x418 STATES: bit P + 2 * A is set if the distributor reported the active interrupt as pending (P), active (A)
// 0x420 CHECK: if not 0, the handler reads that state from the distributor before it ends
// 0x428 IDENT: the eight bytes of the clock's identification
// 0x430 SPLIT: if not 0, the end of an interrupt only drops its priority, and the program polls instead of halting
// 0x438 DEACTIVATE: if not 0, the program deactivates the interrupt, and clears this word
// SERVED counts interrupts in which the clock had something to serve, ANSWERED the others. This file follows
// interrupt_head.S and gic.S.
20:
    ldr x22, [x19, #{COUNT}]
    ldr x23, [x19, #{ADDRESS}]
    ldr w24, [x19, #{VALUE}]
    mov x10, xzr
    mov w11, #0xfe0
1:
    ldr w12, [x23, x11]
    and x12, x12, #0xff
    orr x10, x12, x10, ror #8
    add w11, w11, #4
    cmp w11, #0x1000
    b.ne 1b
    ror x10, x10, #8
    str x10, [x19, #0x428]
    ldr x9, [x19, #0x430]
    cbz x9, 1f
    // EOI mode 1 (ICC_CTLR_EL1, GICC_CTLR).
    cbnz x21, 2f
    mrs x10, S3_0_C12_C12_4
    orr x10, x10, #2
    msr S3_0_C12_C12_4, x10
    isb
    b 1f
2:
    mov w10, #0x201
    str w10, [x21]
1:
    cbz x22, 9f
    ldr x26, [x19, #{SERVED}]
3:
    str w24, [x23, #8]
    // QEMU's clock loses an alarm at the turn of a second (docs/emulator-bugs.md).
    ldr w9, [x23, #0x14]
    cbz w9, 3b
    dsb sy
2:
    ldr x9, [x19, #0x430]
    cbnz x9, 6f
    wfi
3:
    msr daifclr, #2
    // A pending interrupt is taken here at the latest.
    isb
    msr daifset, #2
    ldr x9, [x19, #{SERVED}]
    cmp x9, x26
    b.eq 2b
    sub x22, x22, #1
    b 1b
6:
    ldr x9, [x19, #0x438]
    cbz x9, 3b
    ldr w10, [x19, #{INTID}]
    cbnz x21, 7f
    // ICC_DIR_EL1, GICC_DIR.
    msr S3_0_C12_C11_1, x10
    isb
    b 8f
7:
    add x11, x21, #1, lsl #12
    str w10, [x11]
8:
    str xzr, [x19, #0x438]
    b 3b
9:
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 20b
30:
    ldr x1, [x19, #{ADDRESS}]
    ldr x0, [x19, #0x408]
    add x0, x0, #1
    str x0, [x19, #0x408]
1:
    ldr x0, [x19, #0x400]
    cbz x0, 2f
    yield
    b 1b
2:
    ldr w0, [x1, #0x18]
    cbz w0, 5f
    mov w0, #1
    str w0, [x1, #0x1c]
    // The line is down before the interrupt ends.
    dsb sy
    ldr x0, [x19, #0x410]
    cbz x0, 3f
    sub x0, x0, #1
    str x0, [x19, #0x410]
    ldr w0, [x19, #{VALUE}]
6:
    str w0, [x1, #8]
    ldr w2, [x1, #0x14]
    cbz w2, 6b
    dsb sy
3:
    ldr x0, [x19, #0x420]
    cbz x0, 4f
    ldr w0, [x19, #{INTID}]
    lsr w2, w0, #5
    movz x3, #({GICD} >> 16), lsl #16
    add x3, x3, w2, uxtw #2
    // GICD_ISPENDR and GICD_ISACTIVER.
    ldr w2, [x3, #0x200]
    lsr w2, w2, w0
    and w2, w2, #1
    ldr w4, [x3, #0x300]
    lsr w4, w4, w0
    and w4, w4, #1
    add w2, w2, w4, lsl #1
    mov w4, #1
    lsl w4, w4, w2
    ldr w2, [x19, #0x418]
    orr w2, w2, w4
    str w2, [x19, #0x418]
4:
    ldr x0, [x19, #{SERVED}]
    add x0, x0, #1
    str x0, [x19, #{SERVED}]
    b 15b
5:
    ldr x0, [x19, #{ANSWERED}]
    add x0, x0, #1
    str x0, [x19, #{ANSWERED}]
    b 15b
