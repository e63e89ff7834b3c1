// Calls the hypercall page with number ADDRESS and argument VALUE.
// x0 = parameters. Each time the vcpu is entered, the program does one run of COUNT operations.
    mov x19, x0
1:
    ldr x22, [x19, #{COUNT}]
    movz x24, #({HYPERCALL_PAGE} & 0xffff)
    movk x24, #({HYPERCALL_PAGE} >> 16 & 0xffff), lsl #16
    isb
    mrs x23, cntvct_el0
2:
    ldr x0, [x19, #{ADDRESS}]
    ldr x1, [x19, #{VALUE}]
    blr x24
    subs x22, x22, #1
    b.ne 2b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x23
    str x9, [x19, #{TICKS}]
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 1b
