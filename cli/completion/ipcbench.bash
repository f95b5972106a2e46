# bash completion for ipcbench: ipcbench completion bash prints it. It needs no other
# file. What can stand at the cursor is what ipcbench itself says.

_ipcbench() {
	# Bash cuts words at COMP_WORDBREAKS, which has : and =, so they are put together
	# again, as far as the cursor.
	local rest=${COMP_LINE:0:COMP_POINT} part words=() i
	for ((i = 0; i <= COMP_CWORD; i++)); do
		part=${COMP_WORDS[i]}
		if [[ $i == 0 || $rest == [[:blank:]]* ]]; then
			rest=${rest#"${rest%%[![:blank:]]*}"}
			words+=("")
		fi
		((i < COMP_CWORD)) || part=$rest
		words[${#words[@]} - 1]+=$part
		rest=${rest#"$part"}
	done
	words=("${words[@]//[\"\'\\]/}")
	part=${part//[\"\'\\]/}
	[[ $part == *[!"$COMP_WORDBREAKS"]* ]] || part= # readline begins anew behind : and =

	local lines directive whole flag= value=${words[${#words[@]} - 1]}
	mapfile -t lines < <("${words[0]/#~\//$HOME/}" __complete "${words[@]:1}" 2>/dev/null)
	((${#lines[@]})) || return 1
	directive=${lines[${#lines[@]} - 1]#:}
	unset "lines[${#lines[@]} - 1]"
	[[ $value != --*=* ]] || flag=${value%%=*}= value=${value#*=}

	COMPREPLY=()
	((directive & 2)) && compopt -o nospace
	((directive & 4)) || compopt -o default # files, if nothing else is there
	if ((directive & 8)); then
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$value"; for i in "${lines[@]}"; do compgen -f -X "!*.$i" -- "$value"; done)
	elif ((directive & 16)); then
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -d -- "$value")
	else
		for i in "${lines[@]}"; do
			i=${i%%$'\t'*} # what follows says what it means
			[[ $i == "$value"* ]] || continue
			[[ $i != *[!A-Za-z0-9_.,:=/@%+~-]* ]] || compopt -o filenames # which quotes
			COMPREPLY+=("$i")
		done
	fi
	# Readline replaces only the part behind the last of its word breaks.
	value=$flag$value
	for i in "${!COMPREPLY[@]}"; do
		whole=$flag${COMPREPLY[i]}
		COMPREPLY[i]=${whole#"${value%"$part"}"}
	done
}

complete -F _ipcbench ipcbench
