// The second part of interrupts_handler.S, after gic.S and its.S.
20:
    // The distributor's registers of INTIDs 32 to 63, the same values from each vcpu: all in group 1, and all edges
    // except 36.
    movz x9, #({GICD} >> 16), lsl #16
    movz w10, #0xaaaa, lsl #16
    movk w10, #0xa8aa
    str w10, [x9, #0xc08]
    mov w11, #0xa0
    add x12, x9, #0x420
    add w13, w20, #8
    strb w11, [x12, #4]
    strb w11, [x12, #5]
    strb w11, [x12, w13, uxtw]
    cbnz x21, 1f
    mov w10, #-1
    str w10, [x9, #0x84]
    // GICD_IROUTER.
    add x12, x9, #0x6, lsl #12
    add x12, x12, #0x100
    str x20, [x12, w13, uxtw #3]
    str xzr, [x12, #32]
    str xzr, [x12, #40]
    b 2f
1:
    // GICD_ITARGETSR.
    add x12, x9, #0x820
    mov w11, #1
    strb w11, [x12, #4]
    strb w11, [x12, #5]
    lsl w11, w11, w20
    strb w11, [x12, w13, uxtw]
2:
    mov w11, #1
    lsl w11, w11, w13
    cbnz x20, 1f
    orr w11, w11, #0x30
1:
    str w11, [x9, #0x104]
    dsb sy
    movz x22, #0x5bd1, lsl #48
    movk x22, #0xe995
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 31
    dup v\number\().2d, x22
    .endr
    ldr x23, [x19, #{VALUE}]
    ldr x24, [x19, #{ADDRESS}]
    mov x25, #-1
    msr daifclr, #2
4:
    cbz x23, 5f
    cmp x23, #1
    b.eq 41f
    cmp x23, #4
    b.lo 42f
    b.eq 44f
    msr daifset, #2
    ldr x9, [x19, #0x7d8]
    msr daifclr, #2
    isb
    b 5f
41:
    msr daifset, #2
    ldr x9, [x19, #{PAUSE}]
    cbnz x9, 6f
    dsb sy
    wfi
    msr daifclr, #2
    isb
    b 5f
42:
    str w25, [x24]
    b 5f
44:
    mov x0, x24
    mov x1, x25
    movz x9, #({HYPERCALL_PAGE} & 0xffff)
    movk x9, #({HYPERCALL_PAGE} >> 16 & 0xffff), lsl #16
    blr x9
5:
    ldr x9, [x19, #{RINGS}]
    add x9, x9, #1
    str x9, [x19, #{RINGS}]
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 31
    umov x9, v\number\().d[1]
    cmp x9, x22
    b.ne 9f
    .endr
    sub x25, x25, #1
    ldr x9, [x19, #{PAUSE}]
    cbz x9, 4b
6:
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 6b
9:
    mov x9, #{DONE_ADDRESS}
    mov w10, #1
    str w10, [x9]
    b 9b
