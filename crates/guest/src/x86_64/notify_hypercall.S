# The ring of this program: calls the hypercall page with number ADDRESS and argument VALUE.
.macro prepare
    mov r15d, {HYPERCALL_PAGE}
.endm
.macro ring
    mov rdi, [rbx + {ADDRESS}]
    mov rsi, [rbx + {VALUE}]
    call r15
.endm
