# Plays the script at ADDRESS: records of a u32 kind, a u32 width, a u64 address, value and result,
# until one of kind 0; then says done, and begins again when it is entered again.
    mov r15, rdi
2:
    mov rbx, [r15 + {ADDRESS}]
3:
    mov ecx, [rbx + 4]
    mov rdx, [rbx + 8]
    mov rax, [rbx + 16]
    mov r8d, [rbx]
    cmp r8d, 1
    je 20f
    cmp r8d, 2
    je 30f
    cmp r8d, 3
    je 40f
    cmp r8d, 4
    je 50f
    cmp r8d, 5
    je 60f
    cmp r8d, 6
    je 70f
    cmp r8d, 7
    je 80f
    cmp r8d, 8
    je 81f
    cmp r8d, 9
    je 82f
    cmp r8d, 10
    je 83f
    cmp r8d, 11
    je 84f
    cmp r8d, 12
    je 85f
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 2b
4:
    mov [rbx + 24], rax
    add rbx, 32
    jmp 3b
# Output.
20:
    cmp ecx, 2
    je 22f
    ja 23f
    out dx, al
    jmp 4b
22:
    out dx, ax
    jmp 4b
23:
    out dx, eax
    jmp 4b
# Input.
30:
    cmp ecx, 2
    je 32f
    ja 33f
    in al, dx
    jmp 4b
32:
    in ax, dx
    jmp 4b
33:
    in eax, dx
    jmp 4b
# Store.
40:
    cmp ecx, 2
    je 42f
    cmp ecx, 4
    je 43f
    ja 44f
    mov [rdx], al
    jmp 4b
42:
    mov [rdx], ax
    jmp 4b
43:
    mov [rdx], eax
    jmp 4b
44:
    cmp ecx, 16
    je 45f
    mov [rdx], rax
    jmp 4b
45:
    movups [rdx], xmm0
    jmp 4b
# Load.
50:
    cmp ecx, 2
    je 52f
    cmp ecx, 4
    je 53f
    ja 54f
    mov al, [rdx]
    jmp 4b
52:
    mov ax, [rdx]
    jmp 4b
53:
    mov eax, [rdx]
    jmp 4b
54:
    mov rax, [rdx]
    jmp 4b
# Hypercall.
60:
    mov rdi, rdx
    mov rsi, rax
    mov eax, {HYPERCALL_PAGE}
    call rax
    jmp 4b
# hlt
70:
    hlt
    jmp 4b
# wrmsr
80:
    mov ecx, edx
    mov rdx, rax
    shr rdx, 32
    wrmsr
    jmp 4b
# rdmsr
81:
    mov ecx, edx
    rdmsr
    shl rdx, 32
    or rax, rdx
    jmp 4b
# sti, and an instruction after which interrupts come
82:
    sti
    nop
    jmp 4b
# cli
83:
    cli
    jmp 4b
# sti and hlt
84:
    sti
    hlt
    jmp 4b
# sti and cli, between which no interrupt comes
85:
    sti
    cli
    jmp 4b
