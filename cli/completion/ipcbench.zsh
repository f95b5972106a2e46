#compdef ipcbench
# zsh completion for ipcbench: ipcbench completion zsh prints it. What can stand at the
# cursor is what ipcbench itself says.

_ipcbench() {
	local -a lines values shown space
	local line directive
	lines=("${(@f)$(${(Q)~words[1]} __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
	[[ -n $lines ]] || return 1
	directive=${lines[-1]#:}
	lines[-1]=()
	[[ $PREFIX != --*=* ]] || compset -P 1 '*='

	(( directive & 2 )) && space=(-S '')
	if (( directive & 8 )); then
		_files -g "*.(${(j:|:)lines})(-.)" # without the last, (gz) would be no ending
	elif (( directive & 16 )); then
		_files -/
	elif (( $#lines )); then
		for line in $lines; do
			values+=("${line%%$'\t'*}")
			shown+=("${line/$'\t'/  -- }")
		done
		[[ $lines != *$'\t'* ]] || space+=(-l)
		compadd "${space[@]}" -d shown -a values
	elif ! (( directive & 4 )); then
		_files
	fi
}

if [[ $funcstack[1] == _ipcbench ]]; then
	_ipcbench "$@" # as a file in fpath
else
	compdef _ipcbench ipcbench
fi
