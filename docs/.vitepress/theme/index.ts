import theme from 'vitepress/theme-without-fonts'
import './style.css'

/** VitePress' own, with the fonts of the reader's system: a page loads no font. */
export default theme
