// The first part of every program that takes interrupts; gic.S and its.S follow, and the program's own code at label
// 20. x0 = parameters, x1 = index of the vcpu. x19 keeps the parameters, x20 the index, and x21 the address of a
// GICv2's CPU interface, or 0 for a GICv3; also in handlers. The handler begins at byte 16 with x16 and x17 on the
// stack. It acknowledges the interrupt and calls the program's own handler at label 30 with what it read from the
// acknowledge register in x5; that handler may change x0 to x5, x16 and x17.
    b 10f
    .balign 16
    mrs x16, cntvct_el0
    stp x0, x1, [sp, #-64]!
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    str x30, [sp, #48]
    cbnz x21, 1f
    mrs x5, S3_0_C12_C12_0
    // The acknowledgement takes effect before the handler touches its device.
    dsb sy
    mov w0, w5
    b 2f
1:
    ldr w5, [x21, #0xc]
    // Bits 12:10 say which vcpu sent an SGI.
    and w0, w5, #0x3ff
2:
    // 1020 to 1023 are not interrupts: the interrupt is no longer pending.
    sub w0, w0, #1020
    cmp w0, #4
    b.lo 3f
    str x16, [x19, #{ENTERED}]
    bl 30f
    add x1, x19, #{INTERRUPTS}
    ldr x0, [x1]
    add x0, x0, #1
    // The store releases, so that a reader that sees the count sees ENTERED.
    stlr x0, [x1]
3:
    ldr x30, [sp, #48]
    ldp x4, x5, [sp, #32]
    ldp x2, x3, [sp, #16]
    ldp x0, x1, [sp], #64
    ldp x16, x17, [sp], #16
    eret

// Ends the interrupt x5: priority drop and deactivation in one, which is EOI mode 0.
15:
    cbnz x21, 1f
    msr S3_0_C12_C12_1, x5
    isb
    ret
1:
    str w5, [x21, #0x10]
    ret
