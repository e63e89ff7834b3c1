// Checks the interrupt controller without taking an interrupt: it reads the acknowledge register itself. VALUE chooses
// the check. It says done with 0, or with the number of the failed expectation and the actual value in WORD. This file
// follows interrupt_head.S, gic.S and its.S.
.macro expect got, want, number
    mov w26, #\number
    mov w27, \got
    mov w9, #\want
    cmp w27, w9
    b.ne 90f
.endm
20:
    ldr x22, [x19, #{VALUE}]
    cmp x22, #1
    b.eq 31f
    cmp x22, #2
    b.eq 32f
    cmp x22, #3
    b.eq 33f
    cmp x22, #4
    b.eq 34f
    cmp x22, #5
    b.eq 35f
    cmp x22, #6
    b.eq 36f
    mov w26, #99
    b 90f
// Priority drop: SGI 5 has a higher priority than SGI 0.
31:
    mov x0, #0
    bl 64f
    bl 60f
    expect w5, 0, 1
    mov w23, w5
    bl 61f
    expect w0, 0xd0, 2
    // No interrupt of the same priority comes, and one of a higher priority does.
    mov x0, #0
    bl 64f
    bl 60f
    expect w5, 1023, 3
    mov x0, #5
    bl 64f
    bl 60f
    expect w5, 5, 4
    bl 61f
    expect w0, 0x80, 5
    bl 15b
    bl 61f
    expect w0, 0xd0, 6
    mov w5, w23
    bl 15b
    bl 60f
    expect w5, 0, 7
    bl 15b
    bl 61f
    expect w0, 0xff, 8
    b 91f
// EOI mode 1: the end drops the priority, and a second register deactivates.
32:
    mov w0, #1
    bl 65f
    mov x0, #3
    bl 64f
    bl 60f
    expect w5, 3, 10
    bl 15b
    bl 61f
    expect w0, 0xff, 11
    bl 66f
    expect w0, 1, 12
    // It is active, so it is not acknowledged again.
    mov w23, w5
    mov x0, #3
    bl 64f
    bl 60f
    expect w5, 1023, 13
    mov w5, w23
    bl 63f
    bl 60f
    expect w5, 3, 14
    bl 15b
    bl 63f
    bl 66f
    expect w0, 0, 15
    mov w0, wzr
    bl 65f
    b 91f
// An SPI, 37, is an edge that software makes pending.
33:
    movz x9, #({GICD} >> 16), lsl #16
    mov w10, #0x20
    str w10, [x9, #0x204]
    bl 60f
    expect w5, 37, 20
    bl 15b
    bl 60f
    expect w5, 1023, 21
    b 91f
// The same SPI is level-triggered, and up until the store to ADDRESS.
34:
    bl 60f
    expect w5, 37, 30
    bl 15b
    bl 60f
    expect w5, 37, 31
    ldr x10, [x19, #{ADDRESS}]
    str wzr, [x10]
    bl 15b
    bl 60f
    expect w5, 1023, 32
    b 91f
// An LPI comes once, and has no active state: after the end it may come again at once.
35:
    bl 60f
    expect w5, 8195, 40
    bl 15b
    bl 60f
    expect w5, 1023, 41
    b 91f
// No interrupt is pending.
36:
    bl 60f
    expect w5, 1023, 50
91:
    mov w26, wzr
90:
    str x27, [x19, #{WORD}]
    mov x9, #{DONE_ADDRESS}
    str w26, [x9]
    b 20b
// Acknowledges: w5 is 1023 if nothing comes within some time.
60:
    mov w10, #200
1:
    cbnz x21, 2f
    isb
    mrs x5, S3_0_C12_C12_0
    dsb sy
    b 3f
2:
    ldr w5, [x21, #0xc]
3:
    cmp w5, #1023
    b.ne 4f
    subs w10, w10, #1
    b.ne 1b
4:
    ret
// The running priority, w0.
61:
    cbnz x21, 1f
    isb
    mrs x0, S3_0_C12_C11_3
    ret
1:
    ldr w0, [x21, #0x14]
    ret
// Deactivates x5.
63:
    cbnz x21, 1f
    msr S3_0_C12_C11_1, x5
    isb
    ret
1:
    add x9, x21, #1, lsl #12
    str w5, [x9]
    ret
// Sends SGI w0 to itself.
64:
    mov x1, x20
    b 17b
// EOI mode w0.
65:
    cbnz x21, 1f
    lsl w0, w0, #1
    msr S3_0_C12_C12_4, x0
    isb
    ret
1:
    lsl w0, w0, #9
    orr w0, w0, #1
    str w0, [x21]
    ret
// Whether SGI 3 is active, w0.
66:
    movz x9, #({GICD} >> 16), lsl #16
    cbnz x21, 1f
    movz x9, #({GICR} >> 16), lsl #16
    add x9, x9, #0x10, lsl #12
1:
    ldr w0, [x9, #0x300]
    ubfx w0, w0, #3, #1
    ret
30:
    b 15b
.purgem expect
