# fish completion for ipcbench: ipcbench completion fish prints it. What can stand at
# the cursor is what ipcbench itself says.

function __ipcbench_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct) # as it was typed
    set word (string unescape -- $word; or string unescape -- $word\"; or string unescape -- $word\'; or printf %s $word)
    set -l lines ($words[1] __complete $words[2..-1] "$word" 2>/dev/null)
    or return
    set -l directive (string sub --start 2 -- $lines[-1])
    set -e lines[-1]
    # A candidate is a whole word, with the flag in it.
    set -l flag (string match --regex -- '^--[^=]+=' $word)
    set -l value (string replace -- "$flag" '' $word)

    if test (math "floor($directive / 8) % 2") = 1
        set -l from (string replace --regex -- '^~/' $HOME/ $value)
        set -l files $from*/
        for ending in $lines
            set -a files $from*.$ending
        end
        set lines $value(string sub --start (math 1 + (string length -- "$from")) -- $files)
    else if test (math "floor($directive / 16) % 2") = 1
        set -l from (string replace --regex -- '^~/' $HOME/ $value)
        set lines $value(string sub --start (math 1 + (string length -- "$from")) -- $from*/)
    else if test -z "$lines" -a (math "floor($directive / 4) % 2") = 0
        set lines (__fish_complete_path $value)
    end
    for line in $lines
        printf '%s\n' "$flag$line"
    end
end

complete -c ipcbench -e
complete -c ipcbench -f -a '(__ipcbench_complete)'
