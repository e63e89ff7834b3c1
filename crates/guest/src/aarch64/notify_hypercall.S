// The ring of this program: calls the hypercall page with number ADDRESS and argument VALUE.
.macro prepare
    movz x25, #({HYPERCALL_PAGE} & 0xffff)
    movk x25, #({HYPERCALL_PAGE} >> 16 & 0xffff), lsl #16
    ldr x0, [x19, #{ADDRESS}]
    ldr x1, [x19, #{VALUE}]
.endm
.macro ring
    blr x25
.endm
