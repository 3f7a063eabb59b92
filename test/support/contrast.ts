import type { Page } from 'playwright-core'

/**
 * Texts of a page with too little contrast to their background: below 4.5 (WCAG 2, level AA), or below 3 for large
 * text.
 */
export async function faintTexts(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const channels = (colour: string) => (colour.match(/[\d.]+/g) ?? []).map(Number)
    const over = (top: number[], below: number[]) => {
      const [, , , alpha = 1] = top
      return below.slice(0, 3).map((channel, place) => (top[place] ?? 0) * alpha + channel * (1 - alpha))
    }
    const behind = (node: Element | null): number[] =>
      node
        ? over(channels(getComputedStyle(node).backgroundColor), behind(node.parentElement))
        : [255, 255, 255]
    const luminance = (rgb: number[]) => {
      const [red = 0, green = 0, blue = 0] = rgb
        .map((channel) => channel / 255)
        .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    const faint: string[] = []
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      const parent = text.parentElement
      if (!parent?.checkVisibility() || text.textContent?.trim() === '') continue
      const { color, fontSize, opacity } = getComputedStyle(parent)
      const background = behind(parent)
      const [one, other] = [luminance(over(channels(color), background)), luminance(background)]
      const contrast = ((Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)) * Number(opacity)
      if (contrast < (Number.parseFloat(fontSize) >= 24 ? 3 : 4.5)) {
        faint.push(`${text.textContent}: ${contrast.toFixed(2)}`)
      }
    }
    return faint
  })
}

/** Interactive elements without an accessible name, and duplicate ids. */
export async function namelessElements(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const controls = [...document.querySelectorAll<HTMLElement>('a, button, input, select, textarea')]
    const nameless = controls
      .filter((control) => control.checkVisibility())
      .filter((control) => {
        const labels =
          control instanceof HTMLInputElement ||
          control instanceof HTMLSelectElement ||
          control instanceof HTMLTextAreaElement
            ? [...(control.labels ?? [])]
            : []
        const name = control.ariaLabel ?? labels.map((label) => label.textContent).join('')
        return (name || (control.matches('a, button') ? control.textContent : ''))?.trim() === ''
      })
      .map((control) => control.outerHTML)
    const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id)
    const images = [...document.querySelectorAll('img:not([alt]), svg:not([aria-hidden])')]
    return [
      ...nameless,
      ...ids.filter((id, index) => ids.indexOf(id) !== index),
      ...images.map((image) => image.outerHTML),
      ...(document.querySelectorAll('h1').length === 1 ? [] : ['not one h1']),
    ]
  })
}
