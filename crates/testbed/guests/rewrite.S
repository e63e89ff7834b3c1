# 40 outputs to port 0x42 from one place, then overwrites it with no-operations, then 40 more rounds.
    mov rbx, rdi
    mov ecx, 40
2:
    .byte 0x66, 0x66, 0x66, 0xe7, 0x42
    dec ecx
    jnz 2b
    mov dword ptr [rip + 2b], 0x90909090
    mov byte ptr [rip + 2b + 4], 0x90
    cmp qword ptr [rbx + {RINGS}], 0
    jne 3f
    inc qword ptr [rbx + {RINGS}]
    mov ecx, 40
    jmp 2b
3:
    mov edx, {DONE_PORT}
    out dx, eax
