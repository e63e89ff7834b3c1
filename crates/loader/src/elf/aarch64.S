    // The kernel starts the program here.
    .globl _start
_start:
    mov x29, #0
    mov x30, #0
    bl loader_main
    brk #1

    // The tables of the precompiled core library refer to it. Nothing unwinds here.
    .globl rust_eh_personality
rust_eh_personality:
    brk #1

    // Functions that the compiler calls; the target normally has them from libc.
    .globl memcpy, memmove, memset, memcmp, bcmp
memcpy:
    mov x3, x0
1:  cbz x2, 2f
    ldrb w4, [x1], #1
    strb w4, [x3], #1
    sub x2, x2, #1
    b 1b
2:  ret
memmove:
    sub x3, x0, x1
    cmp x3, x2                          // unsigned: the target begins within the source
    b.hs memcpy
    add x3, x0, x2
    add x1, x1, x2
1:  cbz x2, 2f
    ldrb w4, [x1, #-1]!
    strb w4, [x3, #-1]!
    sub x2, x2, #1
    b 1b
2:  ret
memset:
    mov x3, x0
1:  cbz x2, 2f
    strb w1, [x3], #1
    sub x2, x2, #1
    b 1b
2:  ret
memcmp:
bcmp:
1:  cbz x2, 2f
    ldrb w3, [x0], #1
    ldrb w4, [x1], #1
    sub x2, x2, #1
    subs w3, w3, w4
    b.eq 1b
    mov w0, w3
    ret
2:  mov w0, wzr
    ret
